"""Names, parameters and defaults: those of Mooncake 0.3.13.post1, as its modules tell them."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

# A method a line, or more; `_`: a parameter without a name. `key` of load_tensor_from_safetensor
# has a default before one that has none, which Python cannot say.
METHODS = """
alloc_from_mem_pool(_)
allocate_and_mount_segment(size, protocol='tcp', location='')
batch_get_buffer(_)
batch_get_into(keys, buffer_ptrs, sizes)
batch_get_into_multi_buffer_ranges(keys, all_buffer_ptrs, all_sizes, all_src_offsets)
batch_get_into_multi_buffers(keys, all_buffer_ptrs, all_sizes,
    prefer_alloc_in_same_node=False)
batch_get_replica_desc(keys)
batch_get_session_end(keys)
batch_get_session_start(keys)
batch_get_tensor(keys)
batch_get_tensor_into(keys, buffer_ptrs, sizes)
batch_get_tensor_into_cuda(keys, tensors_list)
batch_get_tensor_with_parallelism(keys, targets=None)
batch_get_tensor_with_parallelism_into(keys, buffer_ptrs, sizes, targets=None)
batch_get_tensor_with_tp(base_keys, tp_rank=0, tp_size=1)
batch_get_tensor_with_tp_into(base_keys, buffer_ptrs, sizes, tp_rank=0, tp_size=1)
batch_is_exist(keys)
batch_pub_tensor(keys, tensors_list, config=CONFIG)
batch_pub_tensor_with_tp(base_keys, tensors_list, config=CONFIG, tp_rank=0, tp_size=1,
    split_dim=0)
batch_put_from(keys, buffer_ptrs, sizes, config=CONFIG)
batch_put_from_multi_buffer_ranges(keys, all_buffer_ptrs, all_sizes, all_dst_offsets)
batch_put_from_multi_buffers(keys, all_buffer_ptrs, all_sizes, config=CONFIG)
batch_put_session_end(keys)
batch_put_session_revoke(keys)
batch_put_session_start(keys, sizes, config=CONFIG)
batch_put_tensor(keys, tensors_list)
batch_put_tensor_from(keys, buffer_ptrs, sizes)
batch_put_tensor_with_parallelism(keys, tensors_list, parallelisms=None, config=CONFIG,
    writer_partitions=None)
batch_put_tensor_with_parallelism_from(keys, buffer_ptrs, sizes, parallelisms=None,
    config=CONFIG, writer_partitions=None)
batch_put_tensor_with_tp(base_keys, tensors_list, tp_rank=0, tp_size=1, split_dim=0)
batch_put_tensor_with_tp_from(base_keys, buffer_ptrs, sizes, tp_rank=0, tp_size=1,
    split_dim=0)
batch_remove(keys, force=False)
batch_replica_clear(keys, segment_name='')
batch_upsert_from(keys, buffer_ptrs, sizes, config=CONFIG)
batch_upsert_pub_tensor(keys, tensors_list, config=CONFIG)
batch_upsert_tensor(keys, tensors_list)
batch_upsert_tensor_from(keys, buffer_ptrs, sizes)
batch_upsert_tensor_with_parallelism(keys, tensors_list, parallelisms=None, config=CONFIG,
    writer_partitions=None)
batch_upsert_tensor_with_parallelism_from(keys, buffer_ptrs, sizes, parallelisms=None,
    config=CONFIG, writer_partitions=None)
close()
create_copy_task(key, targets)
create_move_task(key, source, target)
get(_)
get_batch(_)
get_buffer(_)
get_hostname()
get_into(key, buffer_ptr, size)
get_into_ranges(buffer_ptrs, all_keys, all_dst_offsets, all_src_offsets, all_sizes)
get_offload_rpc_read_count()
get_replica_desc(key)
get_size(_)
get_tensor(key)
get_tensor_into(key, buffer_ptr, size)
get_tensor_into_cuda(key, tensor)
get_tensor_with_parallelism(key, target=None)
get_tensor_with_parallelism_into(key, buffer_ptr, size, target=None)
get_tensor_with_tp(key, tp_rank=0, tp_size=1, split_dim=0)
get_tensor_with_tp_into(key, buffer_ptr, size, tp_rank=0, tp_size=1, split_dim=0)
health_check()
init_all(_, _, _)
is_exist(_)
load_tensor_from_safetensor(key=None, file_name='')
mount_segment(path, size, offset=0, protocol='tcp', location='')
pub_tensor(key, tensor, config=CONFIG)
pub_tensor_with_tp(key, tensor, config=CONFIG, tp_rank=0, tp_size=1, split_dim=0)
put(key, value, config=CONFIG)
put_batch(keys, values, config=CONFIG)
put_from(key, buffer_ptr, size, config=CONFIG)
put_from_with_metadata(key, buffer_ptr, metadata_buffer_ptr, size, metadata_size,
    config=CONFIG)
put_parts(key, *args, config=CONFIG)
put_tensor(key, tensor)
put_tensor_from(key, buffer_ptr, size)
put_tensor_with_parallelism(key, tensor, parallelism=None, config=CONFIG,
    writer_partition=None)
put_tensor_with_parallelism_from(key, buffer_ptr, size, parallelism=None, config=CONFIG,
    writer_partition=None)
put_tensor_with_tp(key, tensor, tp_rank=0, tp_size=1, split_dim=0)
put_tensor_with_tp_from(key, buffer_ptr, size, tp_rank=0, tp_size=1, split_dim=0)
query_task(task_id)
register_buffer(buffer_ptr, size)
remove(key, force=False)
remove_all(force=False)
remove_by_regex(regex_pattern, force=False)
save_tensor_to_safetensor(key, file_name=None)
unmount_and_free_segment(segment_ids, grace_period_seconds=0)
unmount_local_disk_segment(grace_period_seconds=0)
unmount_segment(segment_ids, grace_period_seconds=0)
unregister_buffer(buffer_ptr)
upsert(key, value, config=CONFIG)
upsert_batch(keys, values, config=CONFIG)
upsert_from(key, buffer_ptr, size, config=CONFIG)
upsert_parts(key, *args, config=CONFIG)
upsert_pub_tensor(key, tensor, config=CONFIG)
upsert_tensor(key, tensor)
upsert_tensor_from(key, buffer_ptr, size)
upsert_tensor_with_parallelism(key, tensor, parallelism=None, config=CONFIG,
    writer_partition=None)
upsert_tensor_with_parallelism_from(key, buffer_ptr, size, parallelism=None, config=CONFIG,
    writer_partition=None)
"""

SETUP = (
    "local_hostname, metadata_server, global_segment_size, local_buffer_size, protocol, "
    "rdma_devices, master_server_addr, engine=None, enable_ssd_offload=False, "
    "ssd_offload_path='', tenant_id='default', enable_client_http_server=False, "
    "client_http_port=9300"
)

NAMES = """
ACTIVATION BufferHandle BufferLease BufferLeaseView BufferPool COMPLETE Descriptor DiskDescriptor
EngramStore EngramStoreConfig FAILED GENERAL GRADIENT INITIALIZED KVCACHE METADATA MemoryDescriptor
MooncakeDistributedNoFRegister MooncakeDistributedStore MooncakeHostMemAllocator OPTIMIZER_STATE
ObjectDataType PENDING PROCESSING ParallelAxis QueryTaskResponse REMOVED REPLICA_COPY REPLICA_MOVE
ReadTarget RegisteredBufferLease RegisteredBufferLeaseView RegisteredBufferPool ReplicaDescriptor
ReplicaStatus ReplicateConfig SAMPLE SUCCESS SoftPinAction TENSOR TaskStatus TaskType
TensorParallelism UNDEFINED UNKNOWN WEIGHT bind_to_numa_node get_alloc_func_addr get_free_func_addr
"""

CONFIG = {
    "data_type": 0,
    "dfs_replica_num": 0,
    "group_ids": None,
    "nof_replica_num": 0,
    "prefer_alloc_in_same_node": False,
    "preferred_nof_segments": [],
    "preferred_segment": "",
    "preferred_segments": [],
    "replica_num": 1,
    "soft_pin_action": 0,
    "soft_pin_ttl_ms": None,
    "with_hard_pin": False,
}


def rows() -> list[str]:
    return re.sub(r"\n    +", " ", METHODS).strip().splitlines()


def shape(signature: inspect.Signature) -> list[tuple[str, str, Any]]:
    """Name, kind and default of each; of one without a name that it has none."""
    parameters = list(signature.parameters.values())[1:]
    return [
        (
            "_" if each.kind is each.POSITIONAL_ONLY else each.name,
            "named" if each.kind is each.KEYWORD_ONLY else "",
            each.default,
        )
        for each in parameters
    ]


def wanted(parameters: str) -> list[tuple[str, str, Any]]:
    from mooncake.store import ReplicateConfig

    unnamed = parameters.split(", ").count("_")
    if unnamed:
        parameters = ", ".join(f"_{at}" for at in range(unnamed)) + ", /"
    made = eval(f"lambda self, {parameters}: 0", {"CONFIG": ReplicateConfig()})
    return shape(inspect.signature(made))


def test_methods() -> None:
    from mooncake.store import MooncakeDistributedStore

    assert len(rows()) == 95
    for row in rows():
        name, parameters = row.removesuffix(")").split("(", 1)
        found = inspect.signature(getattr(MooncakeDistributedStore, name))
        assert shape(found) == wanted(parameters), row


def test_setup() -> None:
    """Programs look into the signature, or into the text, for what they may pass."""
    from mooncake.store import MooncakeDistributedStore

    found = inspect.signature(MooncakeDistributedStore.setup)
    assert shape(found) == wanted(SETUP)
    assert "enable_ssd_offload" in (MooncakeDistributedStore.setup.__doc__ or "")


def test_every_name_is_there() -> None:
    import mooncake.store

    assert set(NAMES.split()) <= set(mooncake.store.__all__)
    for name in mooncake.store.__all__:
        getattr(mooncake.store, name)


def test_a_config_can_be_asked_for_what_it_has() -> None:
    from mooncake.store import ReplicateConfig, SoftPinAction

    config = ReplicateConfig()
    assert {name: getattr(config, name) for name in CONFIG} == CONFIG
    assert hasattr(ReplicateConfig, "group_ids")
    assert not hasattr(config, "session_ids")
    with pytest.raises(AttributeError):
        config.with_soft_pin = True
    assert [each.name for each in SoftPinAction] == ["PRESERVE", "ENABLE", "DISABLE"]


@pytest.mark.parametrize(
    "name", ["EngramStore", "EngramStoreConfig", "MooncakeDistributedNoFRegister"]
)
def test_what_has_no_meaning_here_says_so(name: str) -> None:
    import mooncake.store

    with pytest.raises(NotImplementedError, match=name.removeprefix("Mooncake")):
        getattr(mooncake.store, name)()
    with pytest.raises(NotImplementedError, match="allocator of device memory"):
        mooncake.store.get_alloc_func_addr()
