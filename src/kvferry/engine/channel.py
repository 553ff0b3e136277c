"""A live connection to a peer engine, over one path or two.

Locks: `_lock` guards why the channel is over, and `_attaching` of known_regions what is mapped.
Neither is held while anything is copied, sent or waited for, and nothing of an engine is taken
under them. (The fate of a transfer is settled natively, in one step.) Where all locks stand:
lock_order.py.

Transfers hold the gate while they are being submitted, and their regions until they are quiet. A
channel ends in this order: close the gate, abort, drain the gate, wait for quiet, fail the
transfers with the cause, unmap. Abort before unmap, always.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from .. import _core, log
from ..batch import Batch
from ..errors import Cancelled, ClosedError, Error, ForkedError, NotQuiet, PeerError, UsageError
from ..link import Link
from ..memory import RemoteRegion, check_buffer, check_name, late_refusal, nearest, refusal
from ..path import Path, SubmitterKind
from ..stats import Stats
from .control import Control
from .deadline import deadline_after
from .failure import LINK_LOST, Failure, timed_out
from .liveness import Liveness
from .mailbox import MESSAGE_MAX
from .peer_regions import PeerRegions
from .report import Report
from .statistics import Tallies
from .transfer import Transfer

if TYPE_CHECKING:
    from .awaiting import Bells

__all__ = ["Channel"]

logger = log.get("kvferry.engine")

# Finished transfers that nobody waited for are looked after when so many are in the books.
SWEEP_ABOVE = 64

# Seconds between two looks for submitters that a closing channel has to abort.
ABORT_AGAIN = 0.02


class Channel:
    """Reads and writes of a peer's memory, and calls. Made by Engine.connect; thread-safe.

    peer      the peer's address
    epoch     of the peer; after its restart this channel is over, and connect makes another
    rejected  every other path that was wanted ("link/submitter/staging"), and why it is not taken
    """

    def __init__(
        self,
        control: Control,
        ways: tuple[Link, ...],
        rejected: Mapping[str, str],
        engines: _core.CopyEngines,
        local: _core.SpanTable,
        bells: Bells,
        quiet_grace: float,
        ended: Callable[[Channel], None],
    ) -> None:
        self.peer = control.peer
        self.epoch = control.epoch
        self.rejected = dict(rejected)
        self._control = control
        self._ways = ways  # to own regions and, where that is another one, to registered ones
        self._bells = bells
        self._quiet_grace = quiet_grace
        self._ended = ended
        self.known_regions = PeerRegions(self, ways, control, quiet_grace)
        self._local = local
        self._gate = _core.Gateway(engines, local, self.known_regions.spans, _late(ways))
        self._lock = threading.Lock()
        self._flying: dict[Transfer, None] = {}
        self._sweep_at = SWEEP_ABOVE
        self.tallies = Tallies(way.path for way in ways)
        self._watch = control.watch
        self._over: Error | None = None
        self._astray = False

    # ---- what users call ----

    @property
    def path(self) -> Path:
        """How the peer's own regions are reached."""
        return self._ways[0].path

    @property
    def foreign_path(self) -> Path | None:
        """How memory that the peer merely registered is reached; None: not over this channel."""
        path = self._ways[-1].path
        return path if path.sees_registered else None

    @property
    def regions(self) -> Mapping[str, RemoteRegion]:
        """The peer's regions by name. A name not known yet is asked for."""
        return self.known_regions

    @property
    def stats(self) -> dict[Path, Stats]:
        """Sums over this channel's finished transfers, path by path."""
        return {path: reads.join(writes) for path, reads, writes in self.tallies.sums()}

    @property
    def liveness(self) -> Liveness:
        """What is believed of the peer: suspected while it is silent, dead when it was for long."""
        heartbeat = self._control.heartbeat
        return Liveness.DEAD if self.stale() or heartbeat is None else heartbeat.state

    @property
    def closed(self) -> bool:
        return self._over is not None

    def read(self, batch: Batch, timeout: float | None = None) -> Report:
        """Copy the remote side of `batch` to its local side; return when the bytes are here.

        Blocks for at most `timeout` seconds plus the grace for quiet. Raises UsageError,
        RightsError or ClosedError before anything moves; else see Transfer.wait.
        """
        return self._transfer(_core.READ, batch, timeout)

    def write(self, batch: Batch, timeout: float | None = None) -> Report:
        """Copy the local side of `batch` to its remote side; return when they are visible there.

        As read otherwise.
        """
        return self._transfer(_core.WRITE, batch, timeout)

    def read_async(self, batch: Batch) -> Transfer:
        """Submit a read and return; an inline path, or a small batch, is copied first.

        Raises Full when no slot is free, PeerError or Timeout when no wire is; else as read.
        """
        return self._start(_core.READ, batch)

    def write_async(self, batch: Batch) -> Transfer:
        """Submit a write and return; see read_async."""
        return self._start(_core.WRITE, batch)

    def _start(self, op: int, batch: Batch) -> Transfer:
        transfer = self._submit(op, batch, None, patient=False)
        self._way(transfer).wake()
        return transfer

    def call(self, service: str, request: bytes, timeout: float | None = None) -> bytes:
        """Ask a service of the peer (Engine.serve) and return its answer.

        Blocks for at most `timeout` seconds, by default the engine's call_timeout. Raises Timeout,
        after which the peer may still carry it out; PeerError when the peer is gone or its handler
        failed; UsageError for a service it does not have.
        """
        check_name(service)
        if not isinstance(request, bytes):
            raise UsageError(f"a request is bytes, not {type(request).__name__}", cause="not_bytes")
        self.check_open()
        return self._control.call(service, request, timeout)

    def notify(
        self,
        name: str,
        message: bytes,
        after: Iterable[Transfer] = (),
        timeout: float | None = None,
    ) -> None:
        """Put a message into the peer's bounded queue (Engine.notifications).

        Delivered at most once, after the transfers in `after` are done; when one of them failed
        that failure is raised and nothing is sent. Blocks; at the timeout transfers that are still
        pending are aborted. Raises Full when the peer's queue is; UsageError for a message above
        64 KiB.
        """
        check_name(name)
        if not isinstance(message, bytes):
            raise UsageError(f"a message is bytes, not {type(message).__name__}", cause="not_bytes")
        if len(message) > MESSAGE_MAX:
            raise UsageError(
                f"a notification of {len(message)} bytes, {MESSAGE_MAX} at most", cause="too_long"
            )
        deadline = None if timeout is None else deadline_after(timeout)
        for transfer in after:
            transfer.wait_until(deadline)
        self.check_open()
        left = None if deadline is None else max(deadline - _core.now(), 0) / 1e9
        self._control.notify(name, message, left)

    def close(self) -> None:
        """Abort what is in flight, wait for quiet, let go of the peer's memory. Idempotent.

        Waits for no transfer, only for the chunk that a copy is in. Raises NotQuiet when that takes
        longer than the engine's grace; memory then stays mapped until it is quiet.
        """
        self.end(ClosedError("the channel was closed", cause="closed", peer=self.peer))

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<{state} Channel to {self.peer} over {self.path}>"

    # ---- transfers ----

    def _transfer(self, op: int, batch: Batch, timeout: float | None) -> Report:
        deadline = None if timeout is None else deadline_after(timeout)
        transfer = None
        try:
            transfer = self._submit(op, batch, deadline, patient=True)
            return transfer.wait_until(deadline)
        except Error:
            raise
        except BaseException:  # a signal handler raised
            self._calm(batch, transfer)
            raise

    def _calm(self, batch: Batch, transfer: Transfer | None) -> None:
        """A synchronous call ends early, and its caller has no transfer to wait for: wait here.

        The signal may have come between submitting and having the transfer; then those of the same
        batch are waited for. Raises NotQuiet, and the channel is dead.
        """
        if transfer is not None:
            self.abort(transfer, self._interrupted())
        for way in self._ways:
            way.wake()
        deadline = deadline_after(self._quiet_grace)
        for each in [transfer] if transfer is not None else list(self._flying):
            if each.batch is batch and each.state == _core.PENDING:
                if not each.done.wait(deadline):
                    raise self._poison(each)
                self.settle(each)
                if each is transfer and each.failure is not None:
                    each.failure.dismiss()

    def _interrupted(self) -> Cancelled:
        return Cancelled("interrupted", cause="interrupted", peer=self.peer, bytes_moved=None)

    def _submit(self, op: int, batch: Batch, deadline: int | None, patient: bool) -> Transfer:
        """`patient`: wait for a slot until the deadline, else Full at once."""
        if op == _core.READ and batch.local_held is not None:
            check_buffer(op, batch, self.peer)
        transfer = self._gate.admit(Transfer, self, op, batch)
        if not isinstance(transfer, Transfer):
            raise self._refusal() if transfer is None else self._misfit(transfer, batch)
        try:
            try:
                self._flying[transfer] = None
                lent = self._way(transfer).submit(op, transfer.d, transfer.done, deadline, patient)
            finally:
                transfer.leave()
        except BaseException:
            self._unsubmit(transfer)
            raise
        if lent is not None:
            transfer.lent = lent
            if transfer.state != _core.PENDING:  # settled meanwhile, by a thread that saw no slot
                self._give_back(transfer)
        if len(self._flying) > self._sweep_at:
            self.settle_quiet_ones()
            self._sweep_at = 2 * len(self._flying) + SWEEP_ABOVE  # again when as many are new
        return transfer

    def _unsubmit(self, transfer: Transfer) -> None:
        """Submitting raised: nobody will ever have this transfer."""
        transfer.done.forsake()
        self._way(transfer).wake()
        if transfer.done.wait(deadline_after(self._quiet_grace)):
            self._note_loss(transfer)
            transfer.end(None)
            self._flying.pop(transfer, None)
            self._end_if_lost(transfer)
        # Else a signal came between two streams, and one of them is held in its chunk: it stays in
        # the books, with all its memory, until the channel ends.

    def settle(self, transfer: Transfer) -> None:
        """`transfer` is quiet: fix its outcome, once, and give back what it holds."""
        landed = transfer.land(self._watch, self.tallies.by[transfer.d.way][transfer.op])
        if not landed and transfer.state == _core.PENDING:
            self._note_loss(transfer)
            failure = Failure.of(transfer, self._watch.gone())
            if not transfer.end(failure):
                failure.dismiss()
        self._flying.pop(transfer, None)
        if transfer.lent is not None:
            self._give_back(transfer)
        if not landed:
            self._end_if_lost(transfer)

    def _note_loss(self, transfer: Transfer) -> None:
        """Before anybody is told, since who is may connect anew."""
        self._astray = self._astray or transfer.done.outcome == _core.LOST

    def _end_if_lost(self, transfer: Transfer) -> None:
        if transfer.done.outcome == _core.LOST and self._over is None:
            self._control.lose(PeerError(LINK_LOST, cause="link_lost", peer=self.peer))

    def _give_back(self, transfer: Transfer) -> None:
        lent = transfer.take_lent()
        if lent is not None:
            self._way(transfer).release(lent, transfer.failure is not None)

    def _way(self, transfer: Transfer) -> Link:
        return self._ways[transfer.d.way]

    def device_error(self, transfer: Transfer) -> Error | None:
        """What its link knows of a failure in a device's library."""
        return self._way(transfer).why(transfer.done)

    def path_of(self, d: _core.Descriptors) -> Path:
        """Which of the channel's paths a resolved batch takes."""
        return self._ways[d.way].path

    def _misfit(self, found: _core.Descriptors, batch: Batch) -> Error:
        error = refusal(found, batch, self.peer)
        if error.cause == "not_registered" and error.range is not None:
            table = self._local if found.side == _core.LOCAL else self.known_regions.spans
            error.args = (f"{error.args[0]}; {nearest(table, error.range[0])}",)
        return self._name_paths(error, batch)

    def late_refusal(self, transfer: Transfer) -> Error:
        """What to raise for a batch that was refused where it was unfolded, or at the peer."""
        error = late_refusal(transfer.done, transfer.batch, self.peer)
        if self.path_of(transfer.d).submitter is SubmitterKind.COPROCESSOR:
            error.bytes_moved = 0
        return self._name_paths(error, transfer.batch)

    def _name_paths(self, error: Error, batch: Batch) -> Error:
        if error.cause == "mixed_paths" and error.index is not None:
            both = (batch.descriptors.row(index)[1] for index in (0, error.index))
            error.args = (f"{error.args[0]}: {self.known_regions.describe(*both)}",)
        return error

    def abort(self, transfer: Transfer, why: Error) -> None:
        """Ask a transfer to stop; what it says to its waiter is the first `why`."""
        self.check_process()
        if transfer.why is None:
            transfer.why = why
        self._way(transfer).abort(transfer.done)

    def expire(self, transfer: Transfer) -> None:
        """Its time is up: abort it and wait for quiet. Raises NotQuiet, and the channel is dead."""
        self.abort(transfer, timed_out(self.peer))
        if not transfer.done.wait(deadline_after(self._quiet_grace)):
            raise self._poison(transfer)

    def _poison(self, transfer: Transfer) -> NotQuiet:
        """A copy does not stop: refuse everything from now on, keep all memory of the transfer."""
        self._die(ClosedError("a copy did not become quiet", cause="not_quiet", peer=self.peer))
        for other in list(self._flying):
            self.abort(other, self._refusal())

        def quiet(timeout: float | None) -> bool:
            return transfer.done.wait(None if timeout is None else deadline_after(timeout))

        def after() -> None:
            self.settle(transfer)
            self.close()

        return self._not_quiet("the transfer was aborted but is not quiet", quiet, after)

    def _not_quiet(
        self, text: str, quiet: Callable[[float | None], bool], after: Callable[[], None]
    ) -> NotQuiet:
        def wait_quiet(timeout: float | None) -> bool:
            over = quiet(timeout)
            if over:
                after()
            return over

        return NotQuiet(f"{text}: bytes may still land", peer=self.peer, wait_quiet=wait_quiet)

    def settle_quiet_ones(self) -> None:
        """Settle what is over and nobody waited for."""
        for transfer in list(self._flying):
            if transfer.done.quiet:
                self.settle(transfer)

    async def until_quiet(self, transfer: Transfer) -> None:
        await self._bells.until_quiet(transfer.done, transfer.cancel)

    def using(self, span: _core.Span) -> list[Transfer]:
        """Transfers in flight that hold a region."""
        return [transfer for transfer in list(self._flying) if transfer.d.holds(span)]

    # ---- the end ----

    def end(self, why: Error) -> None:
        """Close the channel because of `why`: see close. Nothing in a forked child."""
        if isinstance(self._over, ForkedError):
            return
        self.doom(why)
        deadline = deadline_after(self._quiet_grace)
        while not (left := self._left(ABORT_AGAIN)) and _core.now() < deadline:
            self._abort_all(why)  # one who had entered and was not in the books yet
        for transfer in list(self._flying):
            if not transfer.done.wait(deadline):
                raise self._poison(transfer)
            self.settle(transfer)
        if not left:
            raise self._not_quiet("a submission does not come to an end", self._left, self.close)
        self.known_regions.drop_all()
        for way in self._ways:
            way.close()
        self._control.close()
        self._ended(self)

    def lose(self, why: PeerError) -> None:
        """Take the peer for dead because of `why`, as when it was silent for too long: what is
        under way fails, and whoever connects anew has another channel. Does not block."""
        self._control.lose(why)

    def doom(self, why: Error) -> None:
        """Refuse everything from now on, and tell what is in flight to stop. Does not block."""
        self._die(why)
        self._abort_all(why)

    def _left(self, timeout: float | None) -> bool:
        """Has everybody left who was submitting? Waits for the last, after the gate was closed."""
        return self._gate.drain(None if timeout is None else deadline_after(timeout))

    @property
    def ticket(self) -> bytes:
        """By which the peer knows this channel."""
        return self._control.ticket

    @property
    def was_lost(self) -> bool:
        """Is it over without the peer's knowledge, or with bytes under way to it?"""
        return isinstance(self._over, PeerError) or (self._astray and self.closed)

    def stale(self) -> bool:
        """Is it closed, or its peer gone?"""
        return self._over is not None or self._watch.gone()

    def forked(self) -> None:
        """In a forked child: refuse everything, close inherited descriptors."""
        self._over = ForkedError(
            "the channel belongs to the parent process", cause="forked", peer=self.peer
        )
        self._gate.fork()
        self._flying.clear()
        for way in self._ways:
            way.forked()
        self._control.abandon()

    def _die(self, why: Error) -> None:
        with self._lock:
            if self._over is None:
                self._over = why
        self._gate.close()

    def _abort_all(self, why: Error) -> None:
        for transfer in list(self._flying):
            self.abort(transfer, why)

    def check_open(self) -> None:
        """Raise what ended the channel, if it is over."""
        if self._over is not None:
            raise self._refusal()

    def _refusal(self) -> Error:
        """Why this channel takes no more work."""
        assert self._over is not None, "the gate is closed after the reason is set"
        return self._over.again()

    def check_process(self) -> None:
        """Raise ForkedError in a child of the process that made the channel.

        There nobody would ever complete a transfer.
        """
        if isinstance(self._over, ForkedError):
            raise self._refusal()

    def help(self, transfer: Transfer, deadline: int | None) -> None:
        """The calling thread is about to wait for `transfer`."""
        self.check_process()
        lent = transfer.lent
        if lent is None:
            return
        try:
            self._way(transfer).help(lent, transfer.done, deadline)
        except BaseException:  # a signal handler raised while this thread carried bytes
            self.abort(transfer, self._interrupted())
            raise


def _late(ways: tuple[Link, ...]) -> int:
    """A bit for every way on which a coprocessor looks descriptors up, not who submits."""
    unfolded = (way.path.submitter is SubmitterKind.COPROCESSOR for way in ways)
    return sum(bit << index for index, bit in enumerate(unfolded))
