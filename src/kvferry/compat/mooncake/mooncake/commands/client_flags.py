"""What mooncake_client may be told. Source: `mooncake_client --help` of Mooncake 0.3.13."""

from __future__ import annotations

from .flags import Flag
from .logging_flags import LOGGING

__all__ = ["CLIENT"]

CLIENT = (
    Flag("host", "string", "0.0.0.0", "where its users reach it, and which names its segment"),
    Flag("port", "int32", 50052, "the same; 0: any free one"),
    Flag("master_server_address", "string", "127.0.0.1:50051", "of the master, or of several"),
    Flag("global_segment_size", "string", "4 GB", "of the memory that it gives"),
    Flag("enable_offload", "bool", False, "what does not fit into memory goes to a disk"),
    Flag("enable_http_server", "bool", False, "answer /health and /metrics"),
    Flag("http_port", "int32", 9300, "there, on loopback; 0: any free one"),
    Flag("metadata_server", "string", "http://127.0.0.1:8080/metadata", "", "nobody is asked"),
    Flag("device_names", "string", "", "", "the best path there is, is taken"),
    Flag("protocol", "string", "tcp", "", "the best path there is, is taken"),
    Flag("local_buffer_size", "string", "0", "", "nothing is staged here"),
    Flag("threads", "int32", 1, "", "the engine has as many workers as it needs"),
    Flag("tenant_id", "string", "default", "", "whose a key is, says each user of this client"),
    Flag("start_offload_rpc_server", "bool", True, "", "whoever may read memory may read the disk"),
    *LOGGING,
)
