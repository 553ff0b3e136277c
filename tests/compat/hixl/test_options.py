"""What initialize may be told: every option and every key of the resources, with its range."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path

import hixl
import pytest
from hixl.failures import Refused
from hixl.options import parse_options

from .conftest import FOLDER, Start

# option -> values that are taken, values that are not
OPTIONS = {
    "EnableUseFabricMem": (["0", "1"], ["", "2", "true"]),
    "AutoConnect": (["0", "1"], ["", "yes"]),
    "RdmaTrafficClass": (["0", "132", "252"], ["1", "254", "256", "-4", "x", ""]),
    "RdmaServiceLevel": (["0", "7"], ["8", "-1", "x"]),
    "BufferPool": (["4:8", "0:0", "1:1"], ["", "4", "0:8", "4:0", "a:b", "4:8:1"]),
    "LocalCommRes": (
        ["", '{"version": "1.3"}', '{"version": "1.0"}', '{"version": "1.2"}'],
        ["x", "[]", "{}", '{"version": "2"}', "[" * 100_000],
    ),
    "GlobalResourceConfig": (
        ["{}"],
        [
            *("", "x", "[]", "1", '{"a":' * 100_000),
            '{"connect_pool.thread_num": 1, "connect_pool.thread_num": 2}',
            '{"connect_pool": {"thread_num": 1}, "connect_pool": {"thread_num": 2}}',
            f'{{"connect_pool.thread_num": {"9" * 5000}}}',
        ],
    ),
}
UNFOLD = ("fabric_memory.enable_aicpu_unfold", False)
# key -> values that are taken, values that are not
RESOURCES = {
    "fabric_memory.max_capacity": ([1, 1024, "64"], [0, 1025, "x", 1.5, True, None]),
    "fabric_memory.start_address": ([0, 40, "1024"], [-1, 1025]),
    "fabric_memory.enable_aicpu_unfold": ([True, False], ["true", 1, 0]),
    "transfer_config.max_transfer_count_per_batch": ([1, 1920, "7"], [0, 1921, "", -1]),
    "connect_pool.thread_num": ([1, 64], [0, 65]),
    "connect_pool.task_queue_capacity": ([1, 65535], [0, 65536]),
    "comm_resource_config.protocol_desc": (
        ["roce:device", "ub_ctp:host", ["hccs:device", "uboe:device"]],
        ["tcp", [], ["roce:device", "x"], 1],
    ),
    "comm_resource_config.listen_port": ([1, "65535"], [0, 65536]),
    "comm_resource_config.qos": ([0, 7], [8, -1]),
    "comm_resource_config.max_active_channels": ([1, 8192], [0, 8193]),
    "channel_pool.max_channel": ([1, "512"], [0, 513]),
}


def test_every_option_and_its_range() -> None:
    for key, (good, bad) in OPTIONS.items():
        for value in good:
            parse_options({key: value})
        for value in bad:
            with pytest.raises(Refused, match=key) as refused:
                parse_options({key: value})
            assert refused.value.status == hixl.PARAM_INVALID


def test_every_key_of_the_resources_flat_and_nested() -> None:
    for key, (good, bad) in RESOURCES.items():
        group, name = key.split(".")
        for value in good:
            assert resources({key: value}) == resources({group: {name: value}})
        for value in bad:
            for given in ({key: value}, {group: {name: value}}):
                with pytest.raises(Refused, match=key):
                    resources(given)


def test_streams_go_with_host_unfold_alone() -> None:
    streams = "fabric_memory.task_stream_num"
    assert resources({streams: 1}).task_streams == 1
    assert resources({streams: "8", UNFOLD[0]: UNFOLD[1]}).task_streams == 8
    for given in ({streams: 2}, {streams: 9, UNFOLD[0]: False}, {streams: 0, UNFOLD[0]: False}):
        with pytest.raises(Refused, match=streams):
            resources(given)


def test_waterlines_go_together_and_in_order() -> None:
    high, low = "channel_pool.high_waterline", "channel_pool.low_waterline"
    resources({high: "0.3", low: "0.1"})
    resources({high: 0.9, low: 0.5})
    for given in (
        {high: 0.3},
        {low: 0.1},
        {high: 0.1, low: 0.3},
        {high: 1, low: 0.1},
        {high: 0.5, low: 0},
        {high: "x", low: 0.1},
    ):
        with pytest.raises(Refused, match="waterline"):
            resources(given)


def test_defaults_are_hixls() -> None:
    settings = parse_options({})
    assert (settings.fabric_mem, settings.auto_connect, settings.pool) == (False, False, "4:8")
    assert settings.resources._asdict() == {
        "capacity_tb": 32,
        "task_streams": 1,
        "aicpu_unfold": True,
        "transfers_per_batch": 1920,
        "connect_threads": 2,
        "connect_capacity": 128,
        "comm_res_path": "",
        "hints": (),
    }
    assert parse_options({"EnableUseFabricMem": "1"}).pool == "0:0"


def test_older_spellings() -> None:
    settings = parse_options(
        {
            "adxl.RdmaTrafficClass": "4",
            "adxl.RdmaServiceLevel": "3",
            "adxl.BufferPool": "0:0",
            "adxl.LocalCommRes": '{"version": "1.3"}',
        }
    )
    assert settings.pool == "0:0"
    assert settings.hints == ("RdmaTrafficClass", "RdmaServiceLevel", "LocalCommRes")
    with pytest.raises(Refused, match="BufferPool is given twice"):
        parse_options({"adxl.BufferPool": "0:0", "BufferPool": "4:8"})


def test_what_is_unknown_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="EnableUseFabricMemory"):
        parse_options({"EnableUseFabricMemory": "1"})
    for given in ({"fabric_memory.capacity": 1}, {"fabric_memory": {"capacity": 1}}):
        with pytest.raises(Refused, match=r"fabric_memory\.capacity"):
            resources(given)
    with pytest.raises(Refused, match="twice"):
        resources({"connect_pool.thread_num": 1, "connect_pool": {"thread_num": 1}})


def test_a_refusal_names_key_and_range_in_the_log(said: Callable[[], str]) -> None:
    config = json.dumps({"transfer_config.max_transfer_count_per_batch": 1921})
    options = {hixl.OPTION_GLOBAL_RESOURCE_CONFIG: config}
    assert hixl.Hixl().initialize("127.0.0.1", options) == hixl.PARAM_INVALID
    assert "transfer_config.max_transfer_count_per_batch is 1921" in said()
    assert "from 1 to 1920" in said()


def test_what_has_no_effect_is_said_once(start: Start, said: Callable[[], str]) -> None:
    config = json.dumps({"comm_resource_config": {"qos": 3}, "channel_pool.max_channel": 4})
    start(options={"RdmaTrafficClass": "8", hixl.OPTION_GLOBAL_RESOURCE_CONFIG: config})
    for key in ("RdmaTrafficClass", "comm_resource_config.qos", "channel_pool.max_channel"):
        assert said().count(f"{key} was checked") == 1


def test_the_file_of_communication_resources_is_looked_at(tmp_path: Path, start: Start) -> None:
    good, empty, large = (tmp_path / name for name in ("good", "empty", "large"))
    good.write_text('{"version": "1.3"}')
    empty.touch()
    large.write_bytes(bytes((1 << 20) + 1))
    for path in (empty, large, tmp_path, tmp_path / "absent"):
        options = {
            hixl.OPTION_GLOBAL_RESOURCE_CONFIG: json.dumps({"local_comm_res_path": str(path)})
        }
        assert hixl.Hixl().initialize("127.0.0.1", options) == hixl.PARAM_INVALID
    start(
        options={hixl.OPTION_GLOBAL_RESOURCE_CONFIG: json.dumps({"local_comm_res_path": str(good)})}
    )


def test_what_decides_is_pure() -> None:
    for file in ("options.py", "resources.py", "checks.py", "ranges.py", "values.py"):
        assert not imports(FOLDER / "hixl" / file) & {
            "os",
            "socket",
            "threading",
            "time",
            "logging",
        }


def imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def resources(given: dict[str, object]) -> hixl.resources.Resources:
    return parse_options({"GlobalResourceConfig": json.dumps(given)}).resources
