"""The module that programs import: MooncakeDistributedStore, and what goes with it."""

from __future__ import annotations

from .allocator import MooncakeHostMemAllocator
from .parallelism import ParallelAxis, ReadTarget, TensorParallelism
from .replicate import ObjectDataType, ReplicateConfig, SoftPinAction
from .store_absent import (
    EngramStore,
    EngramStoreConfig,
    MooncakeDistributedNoFRegister,
    get_alloc_func_addr,
    get_free_func_addr,
)
from .store_buffer import BufferHandle
from .store_class import MooncakeDistributedStore
from .store_descriptors import (
    Descriptor,
    DiskDescriptor,
    MemoryDescriptor,
    QueryTaskResponse,
    ReplicaDescriptor,
    ReplicaStatus,
    TaskStatus,
    TaskType,
)
from .store_numa import bind_to_numa_node
from .store_pool import BufferLease, BufferLeaseView, BufferPool
from .tensors import _deserialize_tensor, _serialize_tensor, _tensor_metadata_size

__all__ = [
    "ACTIVATION",
    "COMPLETE",
    "FAILED",
    "GENERAL",
    "GRADIENT",
    "INITIALIZED",
    "KVCACHE",
    "METADATA",
    "OPTIMIZER_STATE",
    "PENDING",
    "PROCESSING",
    "REMOVED",
    "REPLICA_COPY",
    "REPLICA_MOVE",
    "SAMPLE",
    "SUCCESS",
    "TENSOR",
    "UNDEFINED",
    "UNKNOWN",
    "WEIGHT",
    "BufferHandle",
    "BufferLease",
    "BufferLeaseView",
    "BufferPool",
    "Descriptor",
    "DiskDescriptor",
    "EngramStore",
    "EngramStoreConfig",
    "MemoryDescriptor",
    "MooncakeDistributedNoFRegister",
    "MooncakeDistributedStore",
    "MooncakeHostMemAllocator",
    "ObjectDataType",
    "ParallelAxis",
    "QueryTaskResponse",
    "ReadTarget",
    "RegisteredBufferLease",
    "RegisteredBufferLeaseView",
    "RegisteredBufferPool",
    "ReplicaDescriptor",
    "ReplicaStatus",
    "ReplicateConfig",
    "SoftPinAction",
    "TaskStatus",
    "TaskType",
    "TensorParallelism",
    "_deserialize_tensor",
    "_serialize_tensor",
    "_tensor_metadata_size",
    "bind_to_numa_node",
    "get_alloc_func_addr",
    "get_free_func_addr",
]

RegisteredBufferPool = BufferPool
RegisteredBufferLease, RegisteredBufferLeaseView = BufferLease, BufferLeaseView

UNKNOWN, KVCACHE = ObjectDataType.UNKNOWN, ObjectDataType.KVCACHE
TENSOR, WEIGHT = ObjectDataType.TENSOR, ObjectDataType.WEIGHT
SAMPLE, ACTIVATION = ObjectDataType.SAMPLE, ObjectDataType.ACTIVATION
GRADIENT, OPTIMIZER_STATE = ObjectDataType.GRADIENT, ObjectDataType.OPTIMIZER_STATE
METADATA, GENERAL = ObjectDataType.METADATA, ObjectDataType.GENERAL

UNDEFINED, INITIALIZED = ReplicaStatus.UNDEFINED, ReplicaStatus.INITIALIZED
COMPLETE, REMOVED = ReplicaStatus.COMPLETE, ReplicaStatus.REMOVED

PENDING, PROCESSING = TaskStatus.PENDING, TaskStatus.PROCESSING
FAILED, SUCCESS = TaskStatus.FAILED, TaskStatus.SUCCESS
REPLICA_COPY, REPLICA_MOVE = TaskType.REPLICA_COPY, TaskType.REPLICA_MOVE
