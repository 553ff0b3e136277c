"""Every series of `/metrics`, by name: a counter's without its _total.

docs/metrics.md has the same table for readers, and a test compares them. The unit is the end of the
name, where that is one.
"""

from __future__ import annotations

from .rows import Series, channel, directory, member, node, part, spread, states, store, traffic

__all__ = ["COUNTERS", "GAUGES", "UNITS"]

UNITS = ("bytes", "seconds")

NO_USE = ("capacity", "count", "most")  # of `usage`, what is no share of the pool

GAUGES: dict[str, Series] = {
    "kvferry_seen_timestamp_seconds": store(
        "When the store was looked at, since 1970", lambda seen: seen.at
    ),
    "kvferry_complete": store(
        "1: the directory answered, or the node that has none", lambda seen: not seen.why
    ),
    "kvferry_nodes": states("Nodes that the directory knows, by state"),
    "kvferry_directory_keys": directory("keys", "Keys of which it knows a place"),
    "kvferry_directory_places": directory("places", "Places of keys that it knows"),
    "kvferry_directory_lacking_copies": directory("lacking", "Copies that should be made still"),
    "kvferry_directory_telling_nodes": directory(
        "telling", "Nodes that have not told all that they have yet"
    ),
    "kvferry_directory_memory_bytes": directory("memory", "Memory of its table"),
    "kvferry_node_up": node("1: the node answered", lambda node: not node.why),
    "kvferry_node_answer_seconds": node(
        "How long it took to answer", lambda node: None if node.why else node.seconds
    ),
    "kvferry_node_age_seconds": member(
        "Since the directory first heard of this life of it", lambda standing: standing.since / 1e9
    ),
    "kvferry_node_silence_seconds": member(
        "Since the directory last heard of it", lambda standing: standing.heard / 1e9
    ),
    "kvferry_memory_size_bytes": part("usage", "capacity", "Size of the pool: a tenant's quota"),
    "kvferry_memory_bytes": spread("usage", "use", "Bytes of the pool by what they are", NO_USE),
    "kvferry_memory_objects": part("usage", "count", "Objects in memory"),
    "kvferry_memory_most_objects": part("usage", "most", "Objects that memory may have"),
    "kvferry_users": part("users", "users", "Users of the node"),
    "kvferry_silent_users": part("users", "silent", "Of these, such as may be gone"),
    "kvferry_ssd_size_bytes": part("ssd", "size", "Bytes that may be taken on the disk"),
    "kvferry_ssd_bytes": part("ssd", "bytes", "Bytes of segments on the disk"),
    "kvferry_ssd_live_bytes": part("ssd", "live", "Of these, of objects that are there"),
    "kvferry_ssd_objects": part("ssd", "objects", "Objects on the disk"),
    "kvferry_ssd_behind_objects": part("ssd", "behind", "Objects that are to be written still"),
    "kvferry_ssd_paused": part("ssd", "paused", "1: the disk takes nothing at the moment"),
    "kvferry_ssd_direct": part("ssd", "direct", "1: it is written past the page cache"),
    "kvferry_channel_longest_seconds": channel(
        "Of a channel, how long its longest transfer took", lambda flow: flow.longest
    ),
    "kvferry_channel_suspected": channel("1: the peer is silent", lambda flow: flow.suspected),
}

COUNTERS: dict[str, Series] = {
    "kvferry_directory_beyond_keys": directory(
        "beyond", "Keys of nodes that had told of as many as they may have"
    ),
    "kvferry_directory_full_keys": directory("full", "Keys that found no room in its table"),
    "kvferry_reads": spread("reads", "outcome", "Keys asked for, by how it ended", ("bytes",)),
    "kvferry_read_bytes": part("reads", "bytes", "Bytes that users read"),
    "kvferry_misses": spread("misses", "cause", "Keys that were not there, by cause"),
    "kvferry_traffic_bytes": traffic("Bytes of users by path and direction"),
    "kvferry_came_objects": part("came", "objects", "Objects that came to memory"),
    "kvferry_came_bytes": part("came", "bytes", "Bytes of their extents"),
    "kvferry_left_objects": spread("left", "cause", "Objects that left memory, by cause"),
    "kvferry_left_bytes": spread("left_bytes", "cause", "Bytes of their extents, by cause"),
    "kvferry_ssd_hits": part("ssd", "hits", "Objects brought back from the disk"),
    "kvferry_ssd_hit_bytes": part("ssd", "hit_bytes", "Bytes of these"),
    "kvferry_ssd_written_objects": part("ssd", "written", "Objects written to the disk"),
    "kvferry_ssd_written_bytes": part("ssd", "written_bytes", "Bytes written"),
    "kvferry_ssd_evicted_objects": part("ssd", "evicted", "Objects that left a full disk"),
    "kvferry_ssd_demoted_objects": part(
        "ssd", "demoted", "Objects that left memory and lay on the disk"
    ),
    "kvferry_ssd_lost_objects": part(
        "ssd", "lost", "Objects that left memory before they were written"
    ),
    "kvferry_ssd_too_large_objects": part("ssd", "too_large", "Objects too large for the disk"),
    "kvferry_ssd_corrupt_objects": part("ssd", "corrupt", "Objects whose bytes there were wrong"),
    "kvferry_ssd_unreadable_objects": part(
        "ssd", "unreadable", "Objects that the disk did not give"
    ),
    "kvferry_channel_bytes": channel(
        "Bytes between a node and a peer of it, such as copies", lambda flow: flow.bytes
    ),
    "kvferry_channel_transfers": channel("Transfers of these", lambda flow: flow.transfers),
    "kvferry_channel_busy_seconds": channel(
        "From submission to the last byte, of all of them", lambda flow: flow.seconds
    ),
}
