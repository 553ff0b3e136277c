"""A node whose memory this process has in its address space: read without asking anybody."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...engine import Channel
from ...errors import ClosedError, ForkedError, PeerError, Timeout
from ...memory import Region
from .. import messages as m
from ..answers import Answer, Answers
from ..clock import moments, now
from ..records import Commits
from ..table import Ints, Words
from .beside import DISK, read_beside
from .found import SAID, Found, Key, Room, Watch
from .home import Home
from .lease import leased_by
from .namespace import PLAIN, Namespace
from .pieces import Pieces
from .stock import Extents
from .targets import Target
from .values import Values

if TYPE_CHECKING:
    from ..node import Node, Service
    from ..node.members import Member

__all__ = ["Embedded", "Mapped", "Near"]

POOL, INDEX, BELL = "store.pool", "store.index", "store.bell"
LEASES = "store.leases"
BESIDE = _core.BESIDE
LEAVING, POLL = 100_000_000, 0.001  # ns that who leaves waits for who reads; seconds

# Reads these rows: what an index reader says, and lengths.
Reads = Callable[[Ints], tuple[NDArray[np.uint8], Words]]


class Near(Home):
    """Reads by index, writes by copying. `reader` serves as long as this is referred to."""

    reader: _core.IndexReader
    _pool: np.uint64  # address of its first byte, here
    _leasing: _core.Leasing | None = None  # where leases may be written

    def write(self, extents: Extents, values: Values, timeout: float | None) -> None:
        if isinstance(values.sources, Pieces):
            self.write_pieces(extents, values.sources, values.sources.offsets, timeout)
        else:
            _core.write_all(extents.offsets + self._pool, extents.rooms, values.sources)

    def write_pieces(
        self, extents: Extents, pieces: Pieces, offsets: Words, timeout: float | None
    ) -> None:
        pieces.gather(extents.offsets + self._pool, extents.rooms, offsets)

    def exists(self, keys: Sequence[Key]) -> Answers:
        answers: Answers = SAID[self.reader.exists(_core.digest(keys, self.joined.secret))]
        return answers

    def keep(self, keys: Sequence[Key], span: int) -> Answers:
        """What cannot be settled in shared memory the node is asked for."""
        if self._leasing is None:
            return leased_by(self, _core.digest(keys, self.joined.secret), span)
        codes, left = self._leasing.take(keys, span)
        answers: Answers = SAID[codes]
        if left:
            rows = np.flatnonzero((codes != _core.HIT) & (codes != _core.ABSENT))
            digests = _core.digest([keys[at] for at in rows.tolist()], self.joined.secret)
            answers[rows] = leased_by(self, digests, span)
        return answers

    def read_into(self, keys: Sequence[Key], outs: Sequence[Any], watch: Watch) -> Found:
        codes, lengths = self.reader.get_all(keys, outs)

        def again(rows: Ints) -> tuple[NDArray[np.uint8], Words]:
            some = rows.tolist()
            return self.reader.get_all([keys[at] for at in some], [outs[at] for at in some])

        return self._with_beside(keys, codes, lengths, again)

    def read_pieces(
        self, keys: Sequence[Key], target: Target, rows: Ints | None, watch: Watch
    ) -> Found:
        def again(left: Ints) -> tuple[NDArray[np.uint8], Words]:
            some = left if rows is None else rows[left]
            return target.copy(self.reader, [keys[at] for at in left.tolist()], some)

        return self._with_beside(keys, *target.copy(self.reader, keys, rows), again)

    def block(self, key: Key) -> tuple[int, _core.Block | None]:
        status, block = self.reader.block(key, self)
        return self._block_beside(key) if status == BESIDE else (status, block)

    def _block_beside(self, key: Key) -> tuple[int, _core.Block | None]:
        """ABSENT when it could not be brought in since it is not there; BESIDE for another cause,
        which is told when it is read."""
        block: _core.Block | None = None

        def again(_: Ints) -> tuple[NDArray[np.uint8], Words]:
            nonlocal block
            status, block = self.reader.block(key, self)
            return np.array([status], np.uint8), np.zeros(1, np.uint64)

        try:
            said = np.array([BESIDE], np.uint8)
            found = self._with_beside([key], said, np.zeros(1, np.uint64), again)
        except (PeerError, Timeout, ClosedError):
            return BESIDE, None
        if block is not None:
            return _core.HIT, block
        return (_core.ABSENT if found.answers[0] == Answer.ABSENT else BESIDE), None

    def _with_beside(
        self, keys: Sequence[Key], codes: NDArray[np.uint8], lengths: Words, again: Reads
    ) -> Found:
        """What an index reader said, and what it says of those on the disk once they are here."""
        answers: Answers = SAID[codes]
        if BESIDE in codes.tobytes():

            def read(rows: Ints) -> NDArray[np.bool_]:
                said, lengths[rows] = again(rows)
                answers[rows] = SAID[said]
                beside: NDArray[np.bool_] = said == BESIDE
                return beside

            digests = _core.digest(keys, self.joined.secret)
            read_beside(self, digests, answers, codes == BESIDE, read)
        return Found(answers, lengths)

    def read(self, keys: Sequence[Key], room: Room, watch: Watch) -> Found:
        """Each is copied while it is held where it lies."""

        def read(rows: Ints) -> tuple[NDArray[np.uint8], Words]:
            said, lengths = np.empty(len(rows), np.uint8), np.empty(len(rows), np.uint64)
            for row, at in enumerate(rows.tolist()):
                said[row], lengths[row] = self._read(keys[at], partial(room, at))
            return said, lengths

        return self._with_beside(keys, *read(np.arange(len(keys))), read)

    def _read(self, key: Key, room: Callable[[int], Any | None]) -> tuple[int, int]:
        """What the reader says, and the length."""
        status, block = self.reader.block(key, self)
        if block is None:
            return status, 0
        with block as memory:
            out = room(memory.nbytes)
            if out is None:
                status = _core.TOO_SMALL
            elif memory.nbytes:
                memoryview(out).cast("B")[: memory.nbytes] = memory
            return status, memory.nbytes


class Embedded(Near):
    """The node is in this process: it is called, not asked."""

    apart = False

    def __init__(self, node: Node, service: Service, namespace: Namespace = PLAIN) -> None:
        from ..node import answer, joined, own_user

        self._pid = os.getpid()
        self._node = node
        self._service = service
        self._answer = answer
        self._member: Member = own_user(node)
        self.joined = namespace.joined(joined(node, self._member))
        self.name = node.engine.name
        self._pool = np.uint64(node.pool.address)
        lines, mine = self._member.lines, self._member.region
        assert lines is not None, "own_user maps memory"
        assert mine is not None, "own_user maps memory"
        # Views may be in use when the engine has ended.
        beside = None if node.tier is None else node.tier.region
        used = (node.pool, node.index_region, node.leases, mine, beside)
        self._kept = [memoryview(each) for each in used if each is not None]
        self.reader = _reader(self.joined, node.index_region, node.pool, lines, beside)
        self._leasing = _leasing(self.joined, self.reader, node.leases)

    @property
    def gone(self) -> bool:
        return self._service.closed

    @property
    def enrolled(self) -> bool:
        return self._service.enrolled

    def settle(self, timeout: float, alone: bool) -> bool:
        herald = self._node.herald
        return herald is None or herald.settle(now() + int(timeout * 1e9), alone)

    def ask(self, request: m.Request, kind: type[m.R], timeout: float | None = None) -> m.R:
        if os.getpid() != self._pid:
            raise ForkedError("the node is in the parent process", cause="forked")
        if self.gone:
            raise ClosedError("the store was closed", cause="closed")
        return m.expect(kind, self._answer(self._node, self._member, request))

    def commit(self, attempts: Words, values: Values, timeout: float | None) -> Answers:
        digests, _, lengths, parents, ttls, attrs = values
        commits = Commits(attempts, digests, lengths, attrs, parents, moments(ttls))
        return self._node.commit(self._member.number, commits)

    def leave(self) -> None:
        """The node goes with its only user, and with those elsewhere."""
        self._service.close()


class Mapped(Near):
    """A node in another process of this host, whose regions are mapped here."""

    unmapped = ""

    def __init__(self, channel: Channel, namespace: Namespace = PLAIN) -> None:
        self._channel = channel
        self.name, self.path = channel.peer, channel.path
        self.joined = namespace.joined(self.ask(m.Join(m.VERSION, mapped=True), m.Joined))
        own = f"store.user.{self.joined.user}"
        pool, index, bell, mine = (_Held(channel, name) for name in (POOL, INDEX, BELL, own))
        beside = _Held(channel, DISK) if DISK in channel.regions else None
        leases = _Held(channel, LEASES) if self.writes and LEASES in channel.regions else None
        self._kept = (pool, index, bell, mine, beside, leases)
        self._pool = np.uint64(pool.address)
        self._desk: _core.Desk | None = None
        if self.writes:
            desk = mine.address + self.joined.lines
            self._desk = _core.Desk(desk, mine.length - self.joined.lines, bell.address)
        self._lines = _core.Lines(mine.address, self.joined.lines)
        self.reader = _reader(self.joined, index, pool, self._lines, beside)
        self._leasing = None if leases is None else _leasing(self.joined, self.reader, leases)

    @property
    def gone(self) -> bool:
        return self._channel.stale()

    def ask(self, request: m.Request, kind: type[m.R], timeout: float | None = None) -> m.R:
        return m.decode_reply(self._channel.call(m.SERVICE, m.encode(request), timeout), kind)

    def commit(self, attempts: Words, values: Values, timeout: float | None) -> Answers:
        digests, _, lengths, parents, ttls, attrs = values
        if self._desk is None:
            raise self.read_only()
        deadline = _core.now() + int((10.0 if timeout is None else timeout) * 1e9)
        outcome, answers = self._desk.commit(
            attempts, digests, lengths, attrs, parents, moments(ttls), deadline, self._is_gone
        )
        if outcome == _core.DESK_DONE:
            return answers
        if self.gone:
            raise PeerError("the node is gone", cause="node_gone", peer=self.name)
        raise Timeout("the node did not answer in time", cause="timeout", peer=self.name)

    def _is_gone(self) -> bool:
        return self.gone

    def leave(self) -> None:
        """What is read or viewed still keeps its bytes: the node is not told then, and waits for
        the end of this process."""
        until = now() + LEAVING
        while self._lines.leave():
            if now() > until:
                return
            time.sleep(POLL)
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
    joined: m.Joined,
    index: Region | _Held,
    pool: Region | _Held,
    lines: _core.Lines,
    beside: Region | _Held | None,
) -> _core.IndexReader:
    return _core.IndexReader(
        index.address,
        index.length,
        joined.epoch,
        pool.address,
        joined.pool,
        lines,
        joined.secret,
        None if beside is None else (beside.address, beside.length),
    )


def _leasing(joined: m.Joined, reader: _core.IndexReader, leases: Region | _Held) -> _core.Leasing:
    return _core.Leasing(reader, leases.address, leases.length, joined.longest_lease)
