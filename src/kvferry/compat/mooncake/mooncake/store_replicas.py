"""Where objects are, and copying and moving them there."""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence

from kvferry.errors import Full, UsageError
from kvferry.store import Answer

from .store_codes import FAILURES, Code, code_of, lost
from .store_descriptors import (
    Descriptor,
    MemoryDescriptor,
    QueryTaskResponse,
    ReplicaDescriptor,
    TaskStatus,
    TaskType,
)
from .store_reads import Key, Reads
from .store_removal import Removal

__all__ = ["Replicas"]

TASKS = 10_000  # whose outcome is remembered
WORD = (1 << 64) - 1
NO_TASK = (0, 0)

Task = tuple[tuple[int, int], int]


class Replicas(Reads, Removal):
    """A task is carried out when it is created, and only who created it knows of it."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: OrderedDict[tuple[int, int], QueryTaskResponse] = OrderedDict()

    def get_replica_desc(self, key: Key) -> list[ReplicaDescriptor]:
        """Where it is; []: nowhere, or on a failure."""
        return self.batch_get_replica_desc([key]).get(key, [])

    def batch_get_replica_desc(self, keys: Sequence[Key]) -> dict[Key, list[ReplicaDescriptor]]:
        """The same of those that are somewhere."""
        sizes = self._sizes(keys)
        there = [(key, size) for key, size in zip(keys, sizes, strict=True) if size >= 0]
        try:
            places = self._client.places([key for key, _ in there])
        except FAILURES as error:
            return lost("batch_get_replica_desc", error, {})
        return {
            key: [_descriptor(size, name) for name in names]
            for (key, size), names in zip(there, places, strict=True)
        }

    def batch_replica_clear(self, keys: Sequence[Key], segment_name: str = "") -> list[Key]:
        """Remove what is not leased, everywhere or from one segment: the keys that were there."""
        try:
            if segment_name:
                gone = self._client.remove_at(segment_name, keys)
            else:
                codes = self._client.store.remove_batch(keys).codes
                gone = (codes == Answer.REMOVED).tolist()
                self._client.settle()
        except FAILURES as error:
            return lost("batch_replica_clear", error, [])
        return [key for key, was in zip(keys, gone, strict=True) if was]

    def create_copy_task(self, key: Key, targets: Sequence[str]) -> Task:
        """Copy it to segments: the number of the task and 0, or (0, 0) and a code. -704: it is not
        there; -600: no target, or none of that name. Blocks until it is done."""

        def copy() -> str:
            for target in targets:
                self._copied(key, target)
            return f"copied to {len(targets)} segments"

        return self._task(TaskType.REPLICA_COPY, key, targets, copy)

    def create_move_task(self, key: Key, source: str, target: str) -> Task:
        """The same, and it is removed at the source then."""

        def move() -> str:
            self._copied(key, target)
            if not self._client.remove_at(source, [key])[0]:
                raise Full(f"{source} has it not, or leased", cause="leased")
            return f"moved to {target}"

        return self._task(TaskType.REPLICA_MOVE, key, [source, target], move)

    def query_task(self, task_id: tuple[int, int]) -> tuple[QueryTaskResponse | None, int]:
        """What became of it, and 0; None and -1400: it is not known here."""
        found = self._tasks.get((task_id[0], task_id[1]))
        return found, int(Code.TASK_NOT_FOUND if found is None else Code.OK)

    # ---- inside ----

    def _task(
        self, kind: TaskType, key: Key, segments: Sequence[str], carry_out: Callable[[], str]
    ) -> Task:
        created, code = time.time_ns() // 1_000_000, self._sizes([key])[0]
        try:
            if code < 0:
                return NO_TASK, code
            self._check_segments(segments)
        except FAILURES as error:
            return NO_TASK, code_of("create_task", error)
        try:
            status, message = TaskStatus.SUCCESS, carry_out()
        except FAILURES as error:
            code_of("create_task", error)
            status, message = TaskStatus.FAILED, str(error)
        name, mine = _new_id(), self._client.number
        now = time.time_ns() // 1_000_000
        self._tasks[name] = QueryTaskResponse(name, kind, status, created, now, mine, message)
        while len(self._tasks) > TASKS:
            self._tasks.popitem(last=False)
        return name, int(Code.OK)

    def _check_segments(self, names: Sequence[str]) -> None:
        """Raises UsageError unless all are segments, and there is one."""
        known = self._client.known_segments()
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise UsageError(f"no segment {unknown}", cause="no_segment")

    def _copied(self, key: Key, target: str) -> None:
        """Raises Full and others when it is not there afterwards."""
        store = self._client.store
        (answer,) = store.copy([key], f"kv://{target}")
        if not answer:
            raise Full(f"{target}: {answer.name}", cause=answer.name.lower())


def _descriptor(size: int, segment: str) -> ReplicaDescriptor:
    return ReplicaDescriptor(MemoryDescriptor(Descriptor(size, 0, segment)))


def _new_id() -> tuple[int, int]:
    number: int = uuid.uuid4().int
    return number >> 64, number & WORD
