"""Following what a directory sees: everything that is there, then what comes and goes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from ... import _core, config, log
from ...engine import Engine
from ...errors import ClosedError, Error, PeerError, UsageError
from ..answers import Digests
from ..messages import digests_in
from .events import REMOVED, STORED, AllBlocksCleared, BlockRemoved, BlockStored, Event, Row
from .line import Line
from .listing import Ask, key_of
from .messages import BITS, Follow, Followed, Scan, Scanned, Texts, texts_in

__all__ = ["Follower", "Following", "follow"]

logger = log.get("kvferry.directory")

PART = 1 << 14  # keys of a part that is scanned, about
EVERY = 0.1  # seconds after which it is asked again when nothing had come
TIMEOUT = 5.0


class Follower:
    """Asks for one message after the other. One thread at a time.

    ask  of the directory
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._term = 0
        self._after = 0
        self._parts: deque[Scan] = deque()  # that are to be scanned still

    @property
    def scanning(self) -> bool:
        """Is there more of what is there already?"""
        return bool(self._parts)

    def step(self) -> list[Event]:
        """What comes next, in order; nothing: there is nothing yet. Raises what asking raises:
        nothing is lost then."""
        if self._parts:
            return self._scan(self._parts[0])
        told = self._ask(Follow(self._term, self._after), Followed)
        events: list[Event] = [] if told.gap else list(events_in(told))
        self._term, self._after = told.term, told.last
        if told.gap:
            self._parts = parts_of(told.keys)
            events.append(AllBlocksCleared(None, None))
        return events

    def _scan(self, part: Scan) -> list[Event]:
        try:
            told = self._ask(part, Scanned)
        except (PeerError, UsageError) as error:
            if error.cause != "bad_size":
                raise
            told = None  # there are many more by now
        if told is None or told.term != self._term:
            self._term = 0
            self._parts.clear()
            return []
        events = list(there_in(told))
        self._parts.popleft()
        return events


class Following:
    """Events of a directory, as an iterator that waits for them, or as `take`. One thread at a
    time. It begins with AllBlocksCleared and a BlockStored for all that is there; so it goes on,
    too, after a gap: when more came than is kept, when another directory leads, or when it began
    again. While no directory answers nothing comes.
    """

    def __init__(self, engine: Engine, addresses: Sequence[str]) -> None:
        self._engine = engine
        line = Line(engine, addresses, TIMEOUT)
        self._follower = Follower(line.ask)
        self._over = False

    def take(self, timeout: float) -> list[Event]:
        """What has come: blocks until there is something, or so many seconds are over. Raises
        ClosedError after `close`."""
        end = time.monotonic() + timeout
        while True:
            if self._over:
                raise ClosedError("nobody follows any more", cause="closed")
            events = self._step()
            left = end - time.monotonic()
            if events or left <= 0:
                return events
            time.sleep(min(EVERY, left))

    def __iter__(self) -> Iterator[Event]:
        while not self._over:
            yield from self.take(TIMEOUT)

    def close(self) -> None:
        """Idempotent."""
        self._over = True
        self._engine.close()

    def __enter__(self) -> Following:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _step(self) -> list[Event]:
        """A gap in asking is none in what is told: what was missed is known by its number."""
        scanning = True
        while scanning:
            try:
                events = self._follower.step()
            except ClosedError:
                raise
            except Error as error:
                logger.info("no directory told what happens: %s", error)
                return []
            scanning = not events and self._follower.scanning
        return events


def follow(address: str | Sequence[str], *, options: config.Options | None = None) -> Following:
    """Follow a directory, or whichever leads of several: to be closed when no more is wanted.

    It needs a token that permits to read. Raises UsageError (address).
    """
    addresses = (address,) if isinstance(address, str) else tuple(address)
    engine = Engine(options=options or config.from_environment())
    try:
        return Following(engine, addresses)
    except BaseException:
        engine.close()
        raise


def parts_of(keys: int) -> deque[Scan]:
    """All there is, in parts that a message takes."""
    bits = min(max(keys // _core.SHARDS // PART, 0).bit_length(), BITS)
    shards = range(_core.SHARDS)
    return deque(Scan(shard, bits, part) for shard in shards for part in range(1 << bits))


def events_in(told: Followed) -> Iterator[Event]:
    """Raises PeerError for columns that do not fit each other."""
    kinds, nodes = np.frombuffer(told.kinds, np.uint8), _nodes_in(told.nodes)
    digests, keys = _keys_in(told.digests, told.names)
    named = [Row(*each) for each in told.named]
    if not len(kinds) == len(nodes) == len(digests) or (nodes >= len(named)).any():
        raise _unfit()
    first = told.last - len(kinds) + 1
    columns = kinds.tolist(), keys, digests, nodes.tolist()
    for number, (kind, key, digest, node) in enumerate(zip(*columns, strict=True), first):
        if kind == STORED:
            yield BlockStored(number, key, digest, *named[node])
        elif kind == REMOVED:
            yield BlockRemoved(number, key, digest, *named[node])
        else:
            yield AllBlocksCleared(number, named[node].address)


def there_in(told: Scanned) -> Iterator[Event]:
    """Of the same form. Raises PeerError as well."""
    digests, keys = _keys_in(told.digests, told.names)
    places = _nodes_in(told.places)
    if len(places) != len(digests) * _core.PLACES or not np.isin(places, [0, *told.named]).all():
        raise _unfit()
    rows = places.reshape(-1, _core.PLACES).tolist()
    for key, digest, numbers in zip(keys, digests, rows, strict=True):
        for number in filter(None, numbers):
            yield BlockStored(None, key, digest, *told.named[number])


def _nodes_in(column: bytes) -> NDArray[np.uint16]:
    if len(column) % 2:
        raise _unfit()
    return np.frombuffer(column, np.uint16)


def _keys_in(column: bytes, texts: Texts) -> tuple[list[bytes], list[str | bytes | None]]:
    """Digests, and what they are called."""
    try:
        digests: Digests = digests_in(column)
        names = texts_in(texts, len(digests)) if texts.lengths else [None] * len(digests)
    except UsageError as error:
        raise PeerError(str(error), cause="protocol") from None
    raw = digests.tobytes()
    return [raw[at : at + 16] for at in range(0, len(raw), 16)], [key_of(name) for name in names]


def _unfit() -> PeerError:
    return PeerError("columns of events do not fit each other", cause="protocol")
