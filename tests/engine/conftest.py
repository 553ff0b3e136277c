"""Pairs of engines for tests: in one process, where that is enough."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import kvferry as kf
from kvferry.submit import SlotPool
from kvferry.testing import LockAudit
from kvferry.testing.under_test import in_sight, on_host

from .window import window

MIB = 1 << 20

# Bytes of the piece that a copy engine has begun when it is held, and finishes when it goes on.
# A device has no such piece: of what it was given it writes, once stopped, nobody knows how much.
BEGUN = MIB if on_host() else None


@pytest.fixture(autouse=True)
def _audited(lock_audit: LockAudit) -> None:
    """Every lock of every test here is watched."""


def over(path: str) -> str:
    """A path whose copies are the processor's: staged, where it does not see the memory."""
    return path if in_sight() else f"{path}/bounce"


class Pair(NamedTuple):
    """Two engines of this process and a channel from one to the other."""

    ours: kf.Engine
    theirs: kf.Engine
    peer: kf.Channel
    pool: kf.Region
    far: kf.Region

    def batch(self, length: int, offset: int = 0) -> kf.Batch:
        """The first `length` bytes of the pool, to `offset` of the peer's region."""
        return kf.Batch.of(self.pool, self.peer.regions["kv"], length=length, remote_offset=offset)

    @property
    def slots(self) -> SlotPool:
        """Where the channel's streams come from: a pool of its link's, or the engine's."""
        pool = getattr(self.peer._ways[0], "_slots", self.ours._channels.slots)
        assert isinstance(pool, SlotPool)
        return pool

    def here(self) -> Any:
        return window(self.pool)

    def there(self) -> Any:
        return window(self.far)


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A channel over fabric/host, one stream, nothing inline; 16 MiB a side; a grace of 0.2 s."""
    yield from _pair("fabric/host")


@pytest.fixture
def inline_pair() -> Iterator[Pair]:
    """The same over fabric/inline."""
    yield from _pair("fabric/inline")


def _pair(path: str) -> Iterator[Pair]:
    options = kf.config.from_environment()
    quick = kf.Options(
        token_file=options.token_file, copy_engines=2, quiet_grace=0.2, notifications=4
    )
    with (
        kf.Engine("127.0.0.1:0", options=quick) as theirs,
        kf.Engine(options=quick) as ours,
    ):
        far = theirs.allocate("kv", 16 * MIB)
        pool = ours.allocate("pool", 16 * MIB)
        peer = ours.connect(theirs.addresses[0], path=path, streams=1, inline_below=0)
        yield Pair(ours, theirs, peer, pool, far)
        ours._copies.hold(False)
