"""What goes on and on: views of the store, and what comes to its nodes and goes. As server-sent
events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from .. import log
from ..errors import Error
from ..store.directory import AllBlocksCleared, Event
from .watcher import Sight, Watcher

__all__ = ["events", "views"]

logger = log.get("kvferry.watch")

ALIVE = 5.0  # seconds of silence after which a stream says that it is there
EVERY = 0.1  # seconds from one look for events to the next
AGAIN = 1.0  # seconds after which a directory is asked again that did not answer

RETRY = b"retry: 2000\n\n"
HERE = b": here\n\n"

Send = Callable[[bytes], None]


def views(watcher: Watcher, over: threading.Event, send: Send) -> None:
    """The past, once, as "past", and then every picture, as "view"."""
    send(RETRY)
    number = 0
    while not over.is_set():
        sight = watcher.next(number, ALIVE)
        if sight is None:
            send(HERE)
            continue
        send((b"" if number else _past(sight)) + _frame("view", sight.view))
        number = sight.number


def events(watcher: Watcher, over: threading.Event, send: Send) -> None:
    """All that is there, then what comes and goes; see docs/directory.md for what they mean."""
    send(RETRY)
    heard = time.monotonic()
    for found in _told(watcher, over):
        if found or time.monotonic() - heard > ALIVE:
            heard = time.monotonic()
            send(b"".join(_frame(type(each).__name__, _plain(each)) for each in found) or HERE)


def _told(watcher: Watcher, over: threading.Event) -> Iterator[list[Event]]:
    """What came, each time; often it is nothing."""
    follower = watcher.follower()
    while not over.is_set():
        try:
            found = follower.step()
            pause = 0.0 if found or follower.scanning else EVERY
        except Error as error:
            logger.info("no directory told what happens: %s", error)
            found, pause = [], AGAIN
        yield found
        over.wait(pause)


def _past(sight: Sight) -> bytes:
    return _frame("past", sight.past)


def _plain(event: Event) -> dict[str, Any]:
    """digest: in hexadecimal; key_hex: of a key that is no text."""
    if isinstance(event, AllBlocksCleared):
        return event._asdict()
    told = event._asdict() | {"digest": event.digest.hex()}
    if isinstance(event.key, bytes):
        told |= {"key": None, "key_hex": event.key.hex()}
    return told


def _frame(name: str, content: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(content))
