"""The calling thread publishes a batch; a copy engine unfolds it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .._core import Descriptors, Done
from ..errors import Full, Timeout
from ..runtime import ControlStream
from .base import Slot, Submitter

__all__ = ["CoprocessorSubmitter"]


class CoprocessorSubmitter(Submitter):
    """One entry and one doorbell a batch, on the channel's own bound slot.

    open_control  makes a control stream, with the worker stream behind it

    All transfers of the channel share the slot. After a failure of any, those that come later get a
    new one; those before it are carried out on the old.
    """

    def __init__(self, open_control: Callable[[], ControlStream]) -> None:
        self._open_control = open_control
        self._control: ControlStream | None = open_control()
        self._lock = threading.Lock()

    def submit(
        self, op: int, d: Descriptors, done: Done, deadline: int | None, patient: bool = False
    ) -> Slot | None:
        if not d.bytes:
            done.finish(0)
            return None
        while not (control := self._bound()).publish(d, op, done):
            if not patient:
                raise Full("the channel's control stream is full", cause="no_slot")
            if not control.await_room(deadline):
                raise Timeout("the channel's control stream stayed full", cause="no_slot")
            if done.quiet:  # aborted, and dropped
                return None
        return [control]

    def _bound(self) -> ControlStream:
        control = self._control
        if control is None:
            with self._lock:
                control = self._control = self._control or self._open_control()
        return control

    def abort(self, done: Done) -> None:
        done.abort()
        done.drop()
        control = self._control
        if control is not None:
            control.stir()

    def wake(self) -> None:
        """Publishing has woken a copy engine."""

    def help(self, lent: Slot, done: Done, deadline: int | None) -> None:
        """The caller's thread does not copy."""

    def release(self, lent: Slot, failed: bool) -> None:
        if failed and self._control in lent:
            self._control = None

    def close(self) -> None:
        self._control = None
