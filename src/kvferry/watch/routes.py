"""What there is to be asked for, and who is answered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from email.message import Message
from functools import partial
from http import HTTPStatus
from urllib.parse import urlsplit

import msgspec

from . import access, streams
from .access import Verdict
from .page import page
from .request import Reply
from .watcher import Watcher

__all__ = ["Routes"]

EVENT_STREAM = "text/event-stream; charset=utf-8"
UNKNOWN = "Not without a key: open the address that `kvferry top --url` prints.\n"
REFUSED = "That is not the key: open the address that `kvferry top --url` prints.\n"


class Routes:
    """Answers one request after the other, from several threads.

    port  it is part of the cookie's name
    over  set when streams have to end
    """

    def __init__(self, key: str, port: int, watcher: Watcher, over: threading.Event) -> None:
        self._key = key
        self._port = port
        self._watcher = watcher
        self._over = over

    def answer(self, method: str, target: str, headers: Message) -> Reply:
        """Blocks as long as a snapshot takes."""
        shown = headers.get("Authorization", ""), headers.get("Cookie", "")
        verdict = access.judge(self._key, self._port, target, *map(str, shown))
        if verdict in _TURNED_AWAY:
            return _TURNED_AWAY[verdict]()
        if method not in ("GET", "HEAD"):
            return Reply(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET, HEAD"})
        path = urlsplit(target).path
        if verdict is Verdict.ENTERS:
            return self._enter(path)
        answer = _ROUTES.get(path)
        if answer is None:
            return Reply(HTTPStatus.NOT_FOUND, "there is nothing\n")
        return answer(self, headers)

    def _enter(self, path: str) -> Reply:
        if path != "/":
            return Reply(HTTPStatus.FORBIDDEN, "the key is a header here, not in the address\n")
        cookie = access.cookie_for(self._port, self._key)
        return Reply(HTTPStatus.SEE_OTHER, headers={"Location": "/", "Set-Cookie": cookie})

    def _page(self, headers: Message) -> Reply:
        body, policy = page()
        more = {"Content-Security-Policy": policy}
        return Reply(HTTPStatus.OK, body, "text/html; charset=utf-8", headers=more)

    def _snapshot(self, headers: Message) -> Reply:
        body = msgspec.json.encode(self._watcher.snapshot())
        return Reply(HTTPStatus.OK, body, "application/json")

    def _metrics(self, headers: Message) -> Reply:
        from . import metrics  # who never asks does not need it

        kind, body = metrics.text_of(self._watcher.snapshot(), str(headers.get("Accept", "")))
        return Reply(HTTPStatus.OK, body, kind)

    def _live(self, headers: Message) -> Reply:
        return self._streamed(streams.views)

    def _events(self, headers: Message) -> Reply:
        return self._streamed(streams.events)

    def _streamed(self, told: Callable[[Watcher, threading.Event, streams.Send], None]) -> Reply:
        stream = partial(told, self._watcher, self._over)
        return Reply(HTTPStatus.OK, kind=EVENT_STREAM, stream=stream)


_TURNED_AWAY: dict[Verdict, Callable[[], Reply]] = {
    Verdict.UNKNOWN: lambda: Reply(
        HTTPStatus.UNAUTHORIZED, UNKNOWN, headers={"WWW-Authenticate": 'Bearer realm="kvferry"'}
    ),
    Verdict.REFUSED: lambda: Reply(HTTPStatus.FORBIDDEN, REFUSED),
}

_ROUTES: dict[str, Callable[[Routes, Message], Reply]] = {
    "/": Routes._page,
    "/events": Routes._events,
    "/live": Routes._live,
    "/metrics": Routes._metrics,
    "/snapshot": Routes._snapshot,
}
