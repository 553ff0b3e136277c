"""Flags as gflags reads them, files of flags, and what a master makes of both."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def read(*words: str, files: dict[str, Any] | None = None) -> Any:
    from mooncake.commands.flags import read
    from mooncake.commands.master_flags import MASTER

    return read(MASTER, words, files or {})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rpc_port=7"], {"rpc_port": 7}),
        (["-rpc_port=7"], {"rpc_port": 7}),
        (["--rpc_port", "7"], {"rpc_port": 7}),
        (["-rpc_port", "0x10"], {"rpc_port": 16}),
        (["--cluster_id", "-a"], {"cluster_id": "-a"}),
        (["--cluster_id="], {"cluster_id": ""}),
        (["--cluster_id=a=b"], {"cluster_id": "a=b"}),
        (["--enable_ha"], {"enable_ha": True}),
        (["--enable_ha=false"], {"enable_ha": False}),
        (["--enable_ha=Y"], {"enable_ha": True}),
        (["--noenable_metric_reporting"], {"enable_metric_reporting": False}),
        (["-eviction_ratio", ".5"], {"eviction_ratio": 0.5}),
        (["--rpc_port=1", "--rpc_port=2"], {"rpc_port": 2}),
        (["--undefok=nonsense,more", "--nonsense=1"], {}),
        (["--nof_eviction_ratio=0.1"], {"nof_eviction_ratio": 0.1}),
    ],
)
def test_what_is_said(words: Sequence[str], said: dict[str, Any]) -> None:
    flags = read(*words)
    assert flags.given == set(said)
    assert {name: flags.values[name] for name in said} == said
    assert flags.strays == ()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--rpc_prt=7"], "unknown command line flag 'rpc_prt'; is 'rpc_port' meant?"),
        (["--norpc_port"], "unknown command line flag 'norpc_port'; is 'rpc_port' meant?"),
        (["--zzz"], "unknown command line flag 'zzz'"),
        (["--rpc_port=abc"], "illegal value 'abc' specified for int32 flag 'rpc_port'"),
        (["--rpc_port=2147483648"], "illegal value '2147483648'"),
        (["--cxl_size=-1"], "illegal value '-1'"),
        (["--enable_ha=maybe"], "illegal value 'maybe' specified for bool flag 'enable_ha'"),
        (["--rpc_port"], "flag '--rpc_port' is missing its argument"),
        (["--flagfile=/nowhere"], "/nowhere"),
    ],
)
def test_what_is_refused(words: Sequence[str], why: str) -> None:
    from mooncake.commands.flags import BadFlag

    with pytest.raises(BadFlag) as refused:
        read(*words)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_words_that_belong_to_no_flag() -> None:
    flags = read("a", "--enable_ha", "false", "--", "--rpc_port=9")
    assert flags.strays == ("a", "false", "--rpc_port=9")
    assert flags.switch("enable_ha")
    assert read("--help").help


def test_files_of_flags(tmp_path: Path) -> None:
    file, loop = tmp_path / "flags", tmp_path / "loop"
    file.write_text("# ours\n--rpc_port=5\n\n--enable_ha\n")
    loop.write_text(f"--flagfile={loop}\n")
    flags = read(f"--flagfile={file}", "--cluster_id=x")
    assert flags.given == {"rpc_port", "enable_ha", "cluster_id"}
    with pytest.raises(Exception, match="too deep"):
        read("--flagfile", str(loop))


JSON = '{"rpc_port": 7, "enable_ha": true, "eviction_ratio": 0.1, "cluster_id": "a: b"}'
YAML = """---
# a master
rpc_port: 7
enable_ha: true   # of two
eviction_ratio: 0.1
cluster_id: "a: b"
"""


@pytest.mark.parametrize(("name", "text"), [("m.json", JSON), ("m.yaml", YAML), ("m.yml", YAML)])
def test_configuration(name: str, text: str) -> None:
    from mooncake.commands.flag_file import flags_in
    from mooncake.commands.master_flags import MASTER

    found = flags_in(name, text, MASTER)
    assert found == {"rpc_port": 7, "enable_ha": True, "eviction_ratio": 0.1, "cluster_id": "a: b"}
    flags = read("--rpc_port=8", files=found)
    assert (flags.number("rpc_port"), flags.ratio("eviction_ratio")) == (8, 0.1)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("m.json", "{", "m.json: Input data was truncated"),
        ("m.json", "[]", "m.json: Expected `object`"),
        ("m.json", '{"rpc_prt": 1}', "m.json: unknown command line flag 'rpc_prt'"),
        ("m.json", '{"rpc_port": {}}', "m.json: Expected"),
        ("m.yaml", "rpc_port: x", "m.yaml: illegal value 'x'"),
        ("m.yaml", "rpc_port:\n  - 7", "m.yaml:2: not a line"),
        ("m.yaml", "tenant: [1]", "m.yaml:1: not a line"),
        ("m.yaml", "hello", "m.yaml:1: not a line"),
    ],
)
def test_configuration_that_is_none(name: str, text: str, why: str) -> None:
    from mooncake.commands.flag_file import flags_in
    from mooncake.commands.flags import BadFlag
    from mooncake.commands.master_flags import MASTER

    with pytest.raises(BadFlag) as refused:
        flags_in(name, text, MASTER)
    assert str(refused.value).startswith(why)


WORDS = "--rpc_port", "--enable_ha", "--noenable_ha", "--undefok=x", "--undefok", "--x", "--", "-"


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(WORDS) | st.text("-=x1\0é", max_size=6), max_size=6))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    from mooncake.commands.flags import BadFlag

    with suppress(BadFlag):
        assert read(*words).given <= {"rpc_port", "enable_ha", "v"}


def wanted(*words: str) -> Any:
    from mooncake.commands.wanted import wanted

    return wanted(read(*words))


def test_what_a_master_is_to_be() -> None:
    plain = wanted()
    assert plain.listen == "0.0.0.0:50051"
    assert plain.reached == "kv://127.0.0.1:50051"
    assert plain.admin == ("127.0.0.1", 9003)
    assert plain.metadata is None
    assert plain.etcd == ()
    assert (plain.settings.lease, plain.settings.high) == (10.0, 0.9)
    assert plain.settings.low == pytest.approx(0.85)
    said = wanted(
        *("--port=7", "--rpc_address=::", "--client_ttl=3", "--default_kv_lease_ttl=2m"),
        *("--enable_http_metadata_server", "--http_metadata_server_port=0"),
        *("--eviction_high_watermark_ratio=0.5", "--eviction_ratio=0.2"),
    )
    assert (said.listen, said.reached) == ("[::]:7", "kv://[::1]:7")
    assert said.metadata == ("127.0.0.1", 0)
    assert said.settings.lease == 120.0
    assert said.settings.limits.high == 0.5
    assert said.settings.limits.low == pytest.approx(0.3)
    assert said.settings.limits.longest_lease == 120_000_000_000
    assert said.spans.dead == 3_000_000_000
    assert said.spans.check() is said.spans
    assert wanted("--client_ttl=1").spans.check().dead == 1_000_000_000
    assert wanted("--rpc_interface=lo").listen == "127.0.0.1:50051"
    ha = wanted("--enable_ha", "--etcd_endpoints=a:1; b:2;", "--rpc_address=10.0.0.1")
    assert ha.etcd == ("a:1", "b:2")


@pytest.mark.parametrize(
    "words",
    [
        ["--port=0"],
        ["--rpc_port=65536"],
        ["--metrics_port=-1"],
        ["--client_ttl=0"],
        ["--default_kv_lease_ttl=soon"],
        ["--default_kv_lease_ttl=48h"],
        ["--eviction_ratio=0"],
        ["--eviction_ratio=0.9"],
        ["--eviction_high_watermark_ratio=1"],
        ["--enable_ha", "--rpc_address=10.0.0.1"],
        ["--enable_ha", "--etcd_endpoints=a:1"],
        ["--enable_ha", "--rpc_address=10.0.0.1", "--ha_backend_type=redis"],
        ["--rpc_interface=nothing0"],
    ],
)
def test_what_no_master_can_be(words: Sequence[str]) -> None:
    from mooncake.commands.flags import BadFlag

    with pytest.raises(BadFlag):
        wanted(*words)


def test_what_has_no_effect_says_why() -> None:
    from mooncake.commands.client_flags import CLIENT
    from mooncake.commands.master_flags import MASTER

    for known in (MASTER, CLIENT):
        assert len({flag.name for flag in known}) == len(known)
        assert all(bool(flag.meaning) != bool(flag.idle) for flag in known)
