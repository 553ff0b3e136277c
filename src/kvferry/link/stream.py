"""What links share whose transfers streams carry out, whatever moves the bytes of a run."""

from __future__ import annotations

from .._core import Descriptors, Done
from ..errors import UsageError
from ..path import Path, Staging
from ..submit import Slot, Submitter
from .base import Link, Peer

__all__ = ["StreamLink"]


class StreamLink(Link):
    """Leaves transfers to a submitter, whose threads touch local memory themselves."""

    def __init__(self, peer: Peer, path: Path, submitter: Submitter) -> None:
        self.peer = peer.name
        self.epoch = peer.facts.epoch
        self.path = path
        self._submitter = submitter

    def submit(
        self,
        op: int,
        d: Descriptors,
        done: Done,
        deadline: int | None = None,
        patient: bool = False,
    ) -> Slot | None:
        if d.opaque and self.path.staging is Staging.NONE:
            raise self._untouchable()
        return self._submitter.submit(op, d, done, deadline, patient)

    def _untouchable(self) -> UsageError:
        """What to raise for a batch whose local side lies in a device, if nothing is staged."""
        return UsageError(
            f"local memory of the batch lies in a device, which {self.path} cannot touch: connect "
            'with staging="bounce", over cma or tcp',
            cause="device_memory",
            peer=self.peer,
        )

    def wake(self) -> None:
        self._submitter.wake()

    def abort(self, done: Done) -> None:
        self._submitter.abort(done)

    def help(self, lent: Slot, done: Done, deadline: int | None) -> None:
        self._submitter.help(lent, done, deadline)

    def release(self, lent: Slot, failed: bool) -> None:
        self._submitter.release(lent, failed)

    def close(self) -> None:
        self._submitter.close()
