"""What is told about replicas and tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NoReturn

__all__ = [
    "Descriptor",
    "DiskDescriptor",
    "MemoryDescriptor",
    "QueryTaskResponse",
    "ReplicaDescriptor",
    "ReplicaStatus",
    "TaskStatus",
    "TaskType",
]


class ReplicaStatus(IntEnum):
    """Whoever finds an object finds it COMPLETE."""

    UNDEFINED = 0
    INITIALIZED = 1
    PROCESSING = 2
    COMPLETE = 3
    REMOVED = 4
    FAILED = 5


class TaskType(IntEnum):
    REPLICA_COPY = 0
    REPLICA_MOVE = 1


class TaskStatus(IntEnum):
    PENDING = 0
    PROCESSING = 1
    FAILED = 2
    SUCCESS = 3


@dataclass(slots=True)
class Descriptor:
    """Bytes at a node. buffer_address is 0: a place there is nobody's business but the node's.

    transport_endpoint  name of the segment
    """

    size: int = 0
    buffer_address: int = 0
    transport_endpoint: str = ""


@dataclass(slots=True)
class MemoryDescriptor:
    buffer_descriptor: Descriptor = field(default_factory=Descriptor)


@dataclass(slots=True)
class DiskDescriptor:
    file_path: str = ""
    object_size: int = 0


class ReplicaDescriptor:
    """An object at one node, in its memory: what lies on a node's disk comes from there when it is
    read."""

    def __init__(self, memory: MemoryDescriptor | None = None) -> None:
        self.status = ReplicaStatus.COMPLETE
        self._memory = memory or MemoryDescriptor()

    def is_memory_replica(self) -> bool:
        return True

    def is_disk_replica(self) -> bool:
        return False

    def is_local_disk_replica(self) -> bool:
        return False

    def get_memory_descriptor(self) -> MemoryDescriptor:
        return self._memory

    def get_disk_descriptor(self) -> NoReturn:
        """Raises RuntimeError: it is none on a disk."""
        raise RuntimeError("Expected DiskDescriptor")


@dataclass(slots=True)
class QueryTaskResponse:
    """What became of a task. Times in milliseconds since 1970."""

    id: tuple[int, int] = (0, 0)
    type: TaskType = TaskType.REPLICA_COPY
    status: TaskStatus = TaskStatus.PENDING
    created_at_ms_epoch: int = 0
    last_updated_at_ms_epoch: int = 0
    assigned_client: tuple[int, int] = (0, 0)
    message: str = ""
