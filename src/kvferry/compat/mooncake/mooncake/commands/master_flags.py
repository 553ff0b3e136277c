"""What mooncake_master may be told. Source: `mooncake_master --help` of Mooncake 0.3.13."""

from __future__ import annotations

from .flags import Flag
from .logging_flags import LOGGING

__all__ = ["MASTER"]

WORKERS = "the engine has as many workers as it needs"
NODES = "nodes keep their objects; what they have, they tell again"
CLIENT = (
    "a client decides that, with mooncake_client --enable_offload or setup's enable_ssd_offload"
)
PLACED = "a client puts at its own node first; another one is chosen by what is free there"
COPIES = "a directory copies only what has fewer copies than was asked for"
EVENTS = "events are read with kvferry.follow, and not published over ZeroMQ"
PINS = "a soft pin lasts until nothing else could leave"
TASKS = "there are no tasks: copies are made by the client that asks for them"
RESERVED = "what a client reserves is free again when it is gone"
NONE = "there is no such storage here"
TENANTS = "tenants are namespaces here, kept apart always, without quotas"

_ACTING = (
    Flag("config_path", "string", "", "a file of these flags, .json or .yaml; the line wins"),
    Flag("rpc_port", "int32", 0, "where clients reach it; 0: that of --port"),
    Flag("port", "int32", 50051, "the same, by its older name"),
    Flag("rpc_address", "string", "0.0.0.0", "at which address"),
    Flag("rpc_interface", "string", "", "a network interface, whose IPv4 address it is instead"),
    Flag("metrics_port", "int32", 9003, "of HTTP: figures, segments, keys; 0: any free one"),
    Flag("metrics_host", "string", "127.0.0.1", "0.0.0.0: whoever reaches it may read there"),
    Flag("default_kv_lease_ttl", "string", "10000", "of exists; ms, or with ms, s, m or h"),
    Flag("client_ttl", "int64", 10, "seconds of silence after which a client's segment is gone"),
    Flag("eviction_high_watermark_ratio", "double", 0.90, "of a segment, above which some leave"),
    Flag("eviction_ratio", "double", 0.05, "of a segment, in bytes, that leaves then"),
    Flag("enable_ha", "bool", False, "elect one of several masters, through etcd"),
    Flag("ha_backend_type", "string", "etcd", "etcd, and nothing else"),
    Flag("ha_backend_connstring", "string", "", "endpoints of etcd, with semicolons in between"),
    Flag("etcd_endpoints", "string", "", "the same"),
    Flag("cluster_id", "string", "mooncake_cluster", "names the masters that elect one of them"),
    Flag("enable_http_metadata_server", "bool", False, "be the metadata service, too"),
    Flag("http_metadata_server_port", "int32", 8080, "of it; 0: any free one"),
    Flag("http_metadata_server_host", "string", "127.0.0.1", "0.0.0.0: whoever reaches it"),
)

_IDLE = (
    Flag("enable_metric_reporting", "bool", True, "", "GET /metrics/summary says it when asked"),
    Flag("max_threads", "int32", 16, "", WORKERS),
    Flag("rpc_thread_num", "int32", 0, "", WORKERS),
    Flag("rpc_conn_timeout_seconds", "int32", 0, "", "silent peers are noticed by their beat"),
    Flag("rpc_enable_tcp_no_delay", "bool", True, "", "small messages are never held back"),
    Flag("default_kv_soft_pin_ttl", "string", "1800000", "", PINS),
    Flag("max_kv_soft_pin_ttl", "string", "86400000", "", PINS),
    Flag("allow_evict_soft_pinned_objects", "bool", True, "", PINS),
    Flag("nof_eviction_ratio", "double", 0.05, "", NONE),
    Flag("nof_eviction_high_watermark_ratio", "double", 0.90, "", NONE),
    Flag("put_start_discard_timeout_sec", "uint64", 30, "", RESERVED),
    Flag("put_start_release_timeout_sec", "uint64", 600, "", RESERVED),
    Flag("memory_allocator", "string", "offset", "", "there is one allocator"),
    Flag("allocation_strategy", "string", "random", "", PLACED),
    Flag("root_fs_dir", "string", "", "", NONE),
    Flag("global_file_segment_size", "int64", (1 << 63) - 1, "", NONE),
    Flag("enable_disk_eviction", "bool", True, "", "a full disk lets its oldest objects go"),
    Flag("quota_bytes", "uint64", 0, "", "the size of a disk is its node's"),
    Flag("enable_offload", "bool", False, "", CLIENT),
    Flag("offload_on_evict", "bool", False, "", CLIENT),
    Flag("offload_force_evict", "bool", False, "", CLIENT),
    Flag("offloading_queue_limit", "uint64", 50000, "", CLIENT),
    Flag("offload_cap_ratio", "double", 0.5, "", CLIENT),
    Flag("promotion_on_hit", "bool", False, "", "what is read from a disk comes into memory"),
    Flag("promotion_admission_threshold", "uint32", 2, "", "it comes with the first read"),
    Flag("promotion_queue_limit", "uint32", 50000, "", "a read waits for it"),
    Flag("promotion_max_per_heartbeat", "uint32", 1, "", "a read waits for it"),
    Flag("dynamic_replication_mode", "string", "off", "", COPIES),
    Flag("dynamic_replication_heat_window_seconds", "uint32", 10, "", COPIES),
    Flag("dynamic_replication_admission_qps_threshold", "double", 0.8, "", COPIES),
    Flag("dynamic_replication_max_memory_replicas", "uint64", 2, "", COPIES),
    Flag("pod_name", "string", "", "", "masters are found by their address"),
    Flag("pod_namespace", "string", "", "", "masters are found by their address"),
    Flag("enable_oplog", "bool", False, "", NODES),
    Flag("oplog_poll_interval_ms", "int32", 1000, "", NODES),
    Flag("oplog_batch_max_entries", "uint32", 1024, "", NODES),
    Flag("batch_oplog_retry_timeout_sec", "uint32", 180, "", NODES),
    Flag("enable_metadata_cleanup_on_timeout", "bool", False, "", "entries stay until replaced"),
    Flag("enable_snapshot", "bool", False, "", NODES),
    Flag("enable_snapshot_restore", "bool", False, "", NODES),
    Flag("snapshot_interval_seconds", "uint64", 600, "", NODES),
    Flag("snapshot_child_timeout_seconds", "uint64", 300, "", NODES),
    Flag("snapshot_retention_count", "uint32", 2, "", NODES),
    Flag("snapshot_backup_dir", "string", "", "", NODES),
    Flag("snapshot_object_store_type", "string", "", "", NODES),
    Flag("snapshot_catalog_store_type", "string", "", "", NODES),
    Flag("snapshot_catalog_store_connstring", "string", "", "", NODES),
    Flag("snapshot_catalog_backend_type", "string", "", "", NODES),
    Flag("snapshot_catalog_backend_connstring", "string", "", "", NODES),
    Flag("snapshot_payload_backend_type", "string", "", "", NODES),
    Flag("snapshot_payload_store_type", "string", "", "", NODES),
    Flag("max_total_finished_tasks", "uint32", 10000, "", TASKS),
    Flag("max_total_pending_tasks", "uint32", 10000, "", TASKS),
    Flag("max_total_processing_tasks", "uint32", 10000, "", TASKS),
    Flag("pending_task_timeout_sec", "uint64", 300, "", TASKS),
    Flag("processing_task_timeout_sec", "uint64", 300, "", TASKS),
    Flag("max_retry_attempts", "uint32", 10, "", TASKS),
    Flag("enable_multi_tenants", "bool", False, "", TENANTS),
    Flag("tenant_quota_connector_type", "string", "file", "", TENANTS),
    Flag("tenant_quota_connector_uri", "string", "", "", TENANTS),
    Flag("nof_heartbeat_interval_sec", "int64", 10, "", NONE),
    Flag("nof_heartbeat_probe_timeout_ms", "uint32", 1000, "", NONE),
    Flag("nof_heartbeat_failures_threshold", "uint32", 3, "", NONE),
    Flag("enable_cxl", "bool", False, "", NONE),
    Flag("cxl_path", "string", "/dev/dax0.0", "", NONE),
    Flag("cxl_size", "uint64", 8 << 30, "", NONE),
    Flag("enable_kv_events", "bool", False, "", EVENTS),
    Flag("kv_events_bind_endpoint", "string", "", "", EVENTS),
    Flag("kv_events_backend_id", "string", "", "", EVENTS),
    Flag("kv_events_queue_capacity", "uint32", 65536, "", EVENTS),
    Flag("kv_events_emit_legacy_compat", "bool", True, "", EVENTS),
    Flag("kv_events_emit_object_key", "bool", True, "", EVENTS),
    Flag("kv_events_additional_salt", "string", "", "", EVENTS),
    Flag("kv_events_block_size", "uint32", 0, "", EVENTS),
    Flag("kv_events_dp_rank", "uint32", 0, "", EVENTS),
    Flag("kv_events_lora_name", "string", "", "", EVENTS),
    Flag("kv_events_model_name", "string", "", "", EVENTS),
    Flag("kv_events_tenant_id", "string", "default", "", EVENTS),
)

MASTER = (*_ACTING, *_IDLE, *LOGGING)
