"""What the processes of the scenario run: a party, and the verbs it is told.

Initiator and target are the same program: which of the two it is lies in what it is asked. The
third, the bystander, writes and reads back a region of the survivor all the while.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from functools import partial

import numpy as np

import kvferry as kf
from kvferry.testing.faults.census import BLOCK, blocks
from kvferry.testing.faults.party import CALM, PATIENCE, POLL, Party, attempt, until
from kvferry.testing.process import Parent

__all__ = ["serve"]

# Of the flood: seconds a call may take, and what the grace and a busy machine add; threads; bytes.
BOUND = 0.2
GRACE = 4.0
FLOODERS = 4
MESSAGE = 64 << 10


def serve(parent: Parent) -> None:
    """Carries out what it is asked until the parent hangs up."""
    side = Sides()
    for verb, *arguments in parent:
        parent.tell(getattr(side, verb)(*arguments))


class Sides(Party):
    """The verbs of all three."""

    # ---- the initiator's calls ----

    def connect(self, address: str, path: str, timeout: float) -> str:
        def connect() -> None:
            self.peer = self.engine.connect(
                address, path=path, timeout=timeout, streams=1, inline_below=0
            )

        return attempt(connect)

    def attach(self) -> str:
        return attempt(lambda: self.peer.regions["kv"])

    def transfer(self, op: str, timeout: float) -> str:
        call = {"read": self.peer.read, "write": self.peer.write}[op]
        return attempt(lambda: call(self._batch(), timeout=timeout))

    def submit(self, op: str) -> None:
        """Put a transfer in flight that stands still before its first byte."""
        call = {"read": self.peer.read_async, "write": self.peer.write_async}[op]
        self.hold(True)
        self._start(lambda: self._flying.append(call(self._batch())))
        until(lambda: any(each.held for each in self._copies()), "nothing is under way")

    def let(self, chunks: int) -> None:
        """Let the held transfer go on by so many chunks."""
        self.hold(True, chunks)

    def finish(self, timeout: float) -> str:
        """Let it go on, and wait for it; "done", or its error, or that of what was begun beside."""
        self.hold(False)
        self._join()
        ends, self._ends = self._ends, []
        ends += [attempt(partial(transfer.wait, timeout)) for transfer in self._flying]
        self._known = [each.status is not kf.Status.UNKNOWN for each in self._flying]
        self._flying.clear()
        return next((end for end in ends if end != "done"), "done")

    def known(self) -> bool:
        """Of what was finished last, is it known how it ended?"""
        return any(self._known)

    def notify(self, name: str, timeout: float) -> str:
        return attempt(lambda: self.peer.notify(name, b"", timeout=timeout))

    def hear(self, name: str) -> None:
        """The notification comes, and none comes twice; others may, whose senders gave up."""
        names: list[str] = []
        while name not in names:
            found = self.engine.notifications(PATIENCE)
            assert found, f"{name} does not come"
            names += [each.name for each in found]
        assert len(set(names)) == len(names), names

    def begin_close(self) -> None:
        """Begin to close the channel; `finish` says how that went."""
        self._start(self.peer.close)
        until(lambda: self.peer.closed, "it does not begin to close")

    def disconnect(self) -> str:
        return attempt(self.peer.close)

    def restarted(self, address: str, path: str) -> Sequence[str]:
        """The target has a new epoch: how a write over the old channel ends, one over a new channel
        that names an old region, and one that is as it should be."""
        peer, batch = self.peer, self.batch
        old = attempt(lambda: peer.write(batch, timeout=PATIENCE))
        assert self.connect(address, path, PATIENCE) == "done"
        stale = attempt(lambda: self.peer.write(batch, timeout=PATIENCE))
        assert peer.closed
        assert peer.epoch != self.peer.epoch
        return [old, stale, self.transfer("write", PATIENCE)]

    def held_descriptors(self) -> int:
        """By this process, once its engine has no channel but the last."""
        until(lambda: len(self.engine._channels.live()) <= 1, "lost channels stay")
        return len(os.listdir("/proc/self/fd"))

    # ---- a peer that does not read ----

    def flood(self, seconds: float) -> Sequence[str]:
        """Say and move as much as the peer takes: how the calls end, each within its bound."""
        ends, stop = set(), time.monotonic() + seconds
        message = bytes(MESSAGE)

        def notify() -> None:
            while time.monotonic() < stop:
                begin = time.monotonic()
                ends.add(attempt(lambda: self.peer.notify("flood", message, timeout=BOUND)))
                assert time.monotonic() - begin < BOUND + GRACE, "notify took too long"

        for _ in range(FLOODERS):
            self._start(notify)
        begin = time.monotonic()
        ends.add(self.transfer("write", BOUND))
        assert time.monotonic() - begin < BOUND + GRACE, "a write took too long"
        self._join()
        assert all(end == "done" for end in self._ends), self._ends
        self._ends = []
        return sorted(ends)

    def make_and_take(self, regions: int) -> None:
        """Announce regions, and take them away again."""
        made = [self.engine.allocate(f"more-{n}", BLOCK) for n in range(regions)]
        for region in made:
            self.engine.unregister(region)

    # ---- the bystander ----

    def calm(self, address: str, path: str) -> None:
        """Begin to write and read back the region "calm" of the engine there."""
        self._stop = threading.Event()
        self._rounds = 0
        channel = self.engine.connect(address, path=path, timeout=PATIENCE)
        self._start(lambda: self._stay_calm(channel))

    def more(self, rounds: int) -> None:
        """So many rounds later."""
        goal = self._rounds + rounds
        until(lambda: self._rounds >= goal or bool(self._ends), "the bystander stands still")
        assert not self._ends, self._ends

    def end_calm(self) -> None:
        self._stop.set()
        self._join()
        assert self._ends == ["done"], self._ends

    def _stay_calm(self, channel: kf.Channel) -> None:
        here = np.zeros(CALM, np.uint8)
        batch = kf.Batch.of(here, channel.regions["calm"])
        while not self._stop.wait(POLL):
            here[:] = wanted = self._rounds % 255 + 1
            channel.write(batch, timeout=PATIENCE)
            here[:] = 0
            channel.read(batch, timeout=PATIENCE)
            assert (here == wanted).all(), "wrong bytes"
            self._rounds += 1
        channel.close()

    # ---- inside ----

    def _batch(self) -> kf.Batch:
        theirs = self.peer.regions["kv"]
        self.batch = kf.Batch.blocks(self.region, blocks(), theirs, blocks(), BLOCK)
        return self.batch
