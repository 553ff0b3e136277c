"""Figures as series and as a line."""

from __future__ import annotations

import re

from kvferry.store.seen import NodeSeen, Part, Snapshot, Standing


def seen() -> Snapshot:
    usage = {"capacity": 4 << 20, "free": 1 << 20, "count": 7}
    first = Part(
        usage=usage,
        reads={"hits": 5, "absent": 2, "bytes": 500},
        left={"evicted": 3, "removed": 9},
        left_bytes={"evicted": 300},
        ssd={"size": 100, "bytes": 60, "objects": 2, "hits": 1, "corrupt": 1, "unreadable": 2},
    )
    silent = Standing(2, 9, 'odd "name"\n', "suspect", "d", 2 << 20, 1 << 20, 1, 9, 0, 0)
    nodes = NodeSeen("10.0.0.1:1", own=first), NodeSeen(silent.address, silent, "silent")
    return Snapshot("kv://a:1", 0.0, 0.0, nodes, {"keys": 8})


def test_series() -> None:
    from mooncake.commands.series import series

    text = series(seen(), {"beat": 6, "roll": 3})
    values = dict(re.findall(r"^([^# ].*) (\d+)$", text, re.M))
    assert values["master_allocated_bytes"] == str(4 << 20)  # of who is silent, as told before
    assert values["master_total_capacity_bytes"] == str(6 << 20)
    assert values['segment_allocated_bytes{segment="10.0.0.1:1"}'] == str(3 << 20)
    assert values['segment_total_capacity_bytes{segment="odd \\"name\\"\\n"}'] == str(2 << 20)
    wanted = {
        "master_key_count": 8,
        "master_active_clients": 2,
        "mem_cache_nums_": 7,
        "total_get_nums_": 7,
        "valid_get_nums_": 5,
        "mem_cache_hit_bytes_total": 500,
        "file_cache_nums_": 2,
        "file_cache_hit_nums_": 1,
        "master_evicted_key_count": 3,
        "master_evicted_size_bytes": 300,
        "master_allocated_file_size_bytes": 60,
        "master_total_file_capacity_bytes": 100,
        "master_promotion_failed_total": 3,
        "master_ping_requests_total": 6,
        "master_mount_segment_requests_total": 0,
    }
    assert {name: int(values[name]) for name in wanted} == wanted
    names = re.findall(r"^# TYPE (\S+) (gauge|counter)$", text, re.M)
    assert len(dict(names)) == len(names)
    assert {name.partition("{")[0] for name in values} == set(dict(names))


def test_nothing_is_there() -> None:
    from mooncake.commands.series import series, summary

    nothing = Snapshot("kv://a:1", 0.0, 0.0, why="nobody answers")
    assert "{segment=" not in series(nothing, {})
    assert "\nmaster_key_count 0\n" in series(nothing, {})
    assert summary(nothing, "leader", "serving").startswith(
        "role=leader, state=serving, service_ready=false, master={Mem Storage: 0 B / 0 B (0.0%) | "
    )


def test_sizes() -> None:
    from mooncake.commands.series import size

    assert [size(each) for each in (0, 1023, 1536, 64 << 20, 5 << 50)] == [
        *("0 B", "1023 B", "1.50 KB", "64.00 MB", "5120.00 TB")
    ]
