"""A node whose memory this process has in its address space: read without asking anybody."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import _core
from ...engine import Channel
from ...errors import ClosedError, ForkedError, PeerError, Timeout
from ...memory import Region
from .. import messages as m
from ..answers import Answer, Answers
from ..clock import moments
from ..records import Commits
from ..table import Words
from .found import SAID, Found, Key, Room, Watch
from .home import Home
from .stock import Extents
from .values import Values

if TYPE_CHECKING:
    from ..node import Node, Service
    from ..node.members import Member

__all__ = ["Embedded", "Mapped", "Near"]

POOL, INDEX, BELL = "store.pool", "store.index", "store.bell"


class Near(Home):
    """Reads by index, writes by copying. `reader` serves as long as this is referred to."""

    reader: _core.IndexReader
    _pool: np.uint64  # address of its first byte, here

    def write(self, extents: Extents, values: Values, timeout: float | None) -> None:
        _core.write_all(extents.offsets + self._pool, extents.rooms, values.sources)

    def exists(self, keys: Sequence[Key]) -> Answers:
        answers: Answers = SAID[self.reader.exists(_core.digest(keys, self.joined.secret))]
        return answers

    def read_into(self, keys: Sequence[Key], outs: Sequence[Any], watch: Watch) -> Found:
        codes, lengths = self.reader.get_all(keys, outs)
        return Found(SAID[codes], lengths)

    def read(self, keys: Sequence[Key], room: Room, watch: Watch) -> Found:
        """Each is copied while it is held where it lies."""
        found = Found.all(len(keys), Answer.ABSENT)
        for at, key in enumerate(keys):
            status, block = self.reader.block(key, self)
            found.answers[at] = SAID[status]
            if block is None:
                continue
            with block as memory:
                found.lengths[at] = memory.nbytes
                out = room(at, memory.nbytes)
                if out is None:
                    found.answers[at] = Answer.TOO_SMALL
                elif memory.nbytes:
                    memoryview(out).cast("B")[: memory.nbytes] = memory
        return found


class Embedded(Near):
    """The node is in this process: it is called, not asked."""

    def __init__(self, node: Node, service: Service) -> None:
        from ..node import answer, joined, own_user

        self._pid = os.getpid()
        self._node = node
        self._service = service
        self._answer = answer
        self._member: Member = own_user(node)
        self.joined = joined(node, self._member)
        self.name = node.engine.name
        self._pool = np.uint64(node.pool.address)
        lines, mine = self._member.lines, self._member.region
        assert lines is not None, "own_user maps memory"
        assert mine is not None, "own_user maps memory"
        # Views may be in use when the engine has ended.
        self._kept = [memoryview(each) for each in (node.pool, node.index_region, mine)]
        self.reader = _reader(self.joined, node.index_region, node.pool, lines)

    @property
    def gone(self) -> bool:
        return self._service.closed

    def ask(self, request: m.Request, kind: type[m.R], timeout: float | None = None) -> m.R:
        if os.getpid() != self._pid:
            raise ForkedError("the node is in the parent process", cause="forked")
        if self.gone:
            raise ClosedError("the store was closed", cause="closed")
        return m.expect(kind, self._answer(self._node, self._member, request))

    def commit(self, attempts: Words, values: Values, timeout: float | None) -> Answers:
        digests, _, lengths, parents, ttls = values
        commits = Commits(attempts, digests, lengths, None, parents, moments(ttls))
        return self._node.commit(self._member.number, commits)

    def leave(self) -> None:
        """The node goes with its only user, and with those elsewhere."""
        self._service.close()


class Mapped(Near):
    """A node in another process of this host, whose regions are mapped here."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.name = channel.peer
        self.joined = self.ask(m.Join(m.VERSION, mapped=True), m.Joined)
        own = f"store.user.{self.joined.user}"
        pool, index, bell, mine = (_Held(channel, name) for name in (POOL, INDEX, BELL, own))
        self._kept = (pool, index, bell, mine)
        self._pool = np.uint64(pool.address)
        desk = mine.address + self.joined.lines
        self._desk = _core.Desk(desk, mine.length - self.joined.lines, bell.address)
        lines = _core.Lines(mine.address, self.joined.lines)
        self.reader = _reader(self.joined, index, pool, lines)

    @property
    def gone(self) -> bool:
        return self._channel.stale()

    def ask(self, request: m.Request, kind: type[m.R], timeout: float | None = None) -> m.R:
        return m.decode_reply(self._channel.call(m.SERVICE, m.encode(request), timeout), kind)

    def commit(self, attempts: Words, values: Values, timeout: float | None) -> Answers:
        digests, _, lengths, parents, ttls = values
        deadline = _core.now() + int((10.0 if timeout is None else timeout) * 1e9)
        outcome, answers = self._desk.commit(
            attempts, digests, lengths, None, parents, moments(ttls), deadline, self._is_gone
        )
        if outcome == _core.DESK_DONE:
            return answers
        if self.gone:
            raise PeerError("the node is gone", cause="node_gone", peer=self.name)
        raise Timeout("the node did not answer in time", cause="timeout", peer=self.name)

    def _is_gone(self) -> bool:
        return self.gone

    def leave(self) -> None:
        self.ask(m.Leave(self.joined.user), m.Told)


class _Held:
    """A region of the node as it is mapped here, and stays, also when the channel has ended."""

    def __init__(self, channel: Channel, name: str) -> None:
        region = channel.regions[name]
        if region.mapping is None:
            raise PeerError(f"{region!r} is not mapped here", cause="not_mapped", peer=channel.peer)
        self.address = region.mapping.address + region.record.offset
        self.length = region.length
        self._export = memoryview(region.mapping.view)


def _reader(
    joined: m.Joined, index: Region | _Held, pool: Region | _Held, lines: _core.Lines
) -> _core.IndexReader:
    return _core.IndexReader(
        index.address,
        index.length,
        joined.epoch,
        pool.address,
        joined.pool,
        lines,
        joined.secret,
    )
