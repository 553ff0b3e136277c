"""Figures of a store as series of Prometheus, under the names that mooncake_master gives them, and
as one line. Pure. What has no meaning here has no series."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kvferry.store.seen import NodeSeen, Snapshot

__all__ = ["allocated", "capacity", "client_series", "series", "size", "summary"]

UNITS = ("B", "KB", "MB", "GB", "TB")


class Series(NamedTuple):
    """of  its value at one node, where it has one; the sum of all is told"""

    name: str
    kind: str
    meaning: str
    of: Callable[[NodeSeen], int]


def capacity(node: NodeSeen) -> int:
    """Bytes of its pool: as it says itself or, where it does not answer, as it was told before."""
    told = node.standing.capacity if node.standing is not None else 0
    return node.own.usage.get("capacity", told)


def allocated(node: NodeSeen) -> int:
    told = node.standing.free if node.standing is not None else 0
    return capacity(node) - node.own.usage.get("free", told)


def _figure(section: str, *names: str) -> Callable[[NodeSeen], int]:
    def figure(node: NodeSeen) -> int:
        figures: dict[str, int] = getattr(node.own, section)
        return sum(figures.get(name, 0) for name in names)

    return figure


GAUGE, COUNTER = "gauge", "counter"

_SUMS = (
    Series("master_allocated_bytes", GAUGE, "Bytes in use of all segments", allocated),
    Series("master_total_capacity_bytes", GAUGE, "Bytes of all segments", capacity),
    Series(
        "master_allocated_file_size_bytes",
        GAUGE,
        "Bytes in use on the disks of clients",
        _figure("ssd", "bytes"),
    ),
    Series(
        "master_total_file_capacity_bytes",
        GAUGE,
        "Bytes that clients may use on their disks",
        _figure("ssd", "size"),
    ),
    Series("master_active_clients", GAUGE, "Clients with a segment", lambda node: 1),
    Series("mem_cache_nums_", GAUGE, "Objects in segments", _figure("usage", "count")),
    Series("file_cache_nums_", GAUGE, "Objects on disks", _figure("ssd", "objects")),
    Series("mem_cache_hit_nums_", COUNTER, "Reads of objects", _figure("reads", "hits")),
    Series("mem_cache_hit_bytes_total", COUNTER, "Bytes of them", _figure("reads", "bytes")),
    Series(
        "file_cache_hit_nums_",
        COUNTER,
        "Objects among them that came from a disk first",
        _figure("ssd", "hits"),
    ),
    Series("file_cache_hit_bytes_total", COUNTER, "Bytes of them", _figure("ssd", "hit_bytes")),
    Series("valid_get_nums_", COUNTER, "Reads that found an object", _figure("reads", "hits")),
    Series("total_get_nums_", COUNTER, "Reads", _figure("reads", "hits", "absent")),
    Series(
        "master_evicted_key_count",
        COUNTER,
        "Objects that had to leave a full segment",
        _figure("left", "evicted"),
    ),
    Series("master_evicted_size_bytes", COUNTER, "Bytes of them", _figure("left_bytes", "evicted")),
    Series(
        "master_promotion_completed_total",
        COUNTER,
        "Objects that came from a disk to memory",
        _figure("ssd", "hits"),
    ),
    Series(
        "master_promotion_completed_bytes_total",
        COUNTER,
        "Bytes of them",
        _figure("ssd", "hit_bytes"),
    ),
    Series(
        "master_promotion_failed_total",
        COUNTER,
        "Objects on a disk that could not be read",
        _figure("ssd", "corrupt", "unreadable"),
    ),
)

# What nodes and users ask a directory.
_REQUESTS = {
    "beat": ("master_ping_requests_total", "Beats of clients"),
    "enroll": ("master_mount_segment_requests_total", "Clients that came, or came again"),
    "leave": ("master_unmount_segment_requests_total", "Clients that said that they end"),
    "lookup": ("master_batch_get_replica_list_requests_total", "Messages that asked for keys"),
}


def _nothing(node: NodeSeen) -> int:
    return 0


_KEYS = Series("master_key_count", GAUGE, "Keys", _nothing)

_SEGMENT = (
    Series("segment_allocated_bytes", GAUGE, "Bytes in use of the segment", allocated),
    Series("segment_total_capacity_bytes", GAUGE, "Bytes of the segment", capacity),
)


def series(seen: Snapshot, requests: Mapping[str, int]) -> str:
    """In the text format of Prometheus, version 0.0.4. Counters are sums over the nodes that
    answered, and so begin anew where a node does; `requests`, by kind, those of this master."""
    keys = seen.directory.get("keys", 0)
    sums = (_series(each, {"": sum(map(each.of, seen.nodes))}) for each in _SUMS)
    asked = (
        _series(Series(name, COUNTER, meaning, _nothing), {"": requests.get(kind, 0)})
        for kind, (name, meaning) in _REQUESTS.items()
    )
    return "".join((*sums, _series(_KEYS, {"": keys}), *asked, *_segments(seen.nodes)))


def client_series(node: NodeSeen) -> str:
    """Of one client, which are those that do not speak of a master."""
    own = (each for each in _SUMS if not each.name.startswith("master_"))
    return "".join((*(_series(each, {"": each.of(node)}) for each in own), *_segments([node])))


def _segments(nodes: Sequence[NodeSeen]) -> Iterator[str]:
    for each in _SEGMENT if nodes else ():
        labels = {f'{{segment="{_label(node.address)}"}}': each.of(node) for node in nodes}
        yield _series(each, labels)


def _series(each: Series, values: Mapping[str, int]) -> str:
    """values by their labels"""
    head = f"# HELP {each.name} {each.meaning}\n# TYPE {each.name} {each.kind}\n"
    return head + "".join(f"{each.name}{labels} {value}\n" for labels, value in values.items())


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def summary(seen: Snapshot, role: str, state: str) -> str:
    """One line for people."""
    used, total = sum(map(allocated, seen.nodes)), sum(map(capacity, seen.nodes))
    disk, disks = (sum(map(_figure("ssd", name), seen.nodes)) for name in ("bytes", "size"))
    evicted = sum(map(_figure("left", "evicted"), seen.nodes))
    bytes = sum(map(_figure("left_bytes", "evicted"), seen.nodes))
    parts = (
        f"Mem Storage: {size(used)} / {size(total)} ({100 * used / (total or 1):.1f}%)",
        f"SSD Storage: {size(disk)} / {size(disks)}",
        f"Keys: {seen.directory.get('keys', 0)}",
        f"Clients: {len(seen.nodes)}",
        f"Eviction: keys={evicted}, size={size(bytes)}",
    )
    ready = str(not seen.why).lower()
    return f"role={role}, state={state}, service_ready={ready}, master={{{' | '.join(parts)}}}"


def size(bytes: int) -> str:
    """1536 is 1.50 KB."""
    unit, left = 0, float(bytes)
    while left >= 1024 and unit < len(UNITS) - 1:
        unit, left = unit + 1, left / 1024
    return f"{bytes} B" if unit == 0 else f"{left:.2f} {UNITS[unit]}"
