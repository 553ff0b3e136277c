"""What engines on a device library leave behind, and what engines of one process share."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

import kvferry as kf
from kvferry.link import Facts
from kvferry.link.cann import CannDriver
from kvferry.runtime import Place
from kvferry.testing import Child, Parent
from tests.engine.cann_party import EMPTY, options
from tests.npu.acl import LIBRARY
from tests.runtime.cann.npu import books, held

Spawn = Callable[..., Child]

SIZE = 64 << 10
CODE = 507899


def settle(**settings: str) -> None:
    """For the library, which this process loads later."""
    os.environ.update({"NPU_QUIET": "1", "KVFERRY_ACL_LIBRARY": str(LIBRARY), **settings})


def region_in_hand(parent: Parent) -> None:
    settle()
    with kf.Engine(options=options()) as engine:
        old = [engine.allocate(place.value, SIZE, place=place) for place in Place]
    assert books() == EMPTY
    with kf.Engine("127.0.0.1:0", options=options()) as engine:
        new = [engine.allocate(place.value, SIZE, place=place) for place in Place]
        assert [each.address for each in new] == [each.address for each in old]
        channel = engine.connect(engine.addresses[0])
        batch = kf.Batch.blocks(old[0], [0], channel.regions["host"], [0], 4096)
        with pytest.raises(kf.ClosedError) as stale:
            channel.write(batch)
        assert stale.value.cause == "stale_region"
    assert books() == EMPTY


def test_a_region_in_hand_keeps_neither_device_nor_addresses(spawn: Spawn) -> None:
    """Addresses of the A3 are reserved once: the next engine has them, and no stale batch does."""
    assert spawn(region_in_hand).result() is None


def close_in_spite(parent: Parent, call: str) -> dict[str, int]:
    settle(NPU_FAIL=f"{call}:1={CODE}")
    engine = kf.Engine(options=options())
    for place in Place:
        engine.allocate(place.value, SIZE, place=place)
    with pytest.raises(kf.DeviceError) as failed:
        engine.close()
    assert failed.value.code == CODE
    engine.close()
    return held()


LEFT = {
    "aclrtFree": {"allocations": 1},
    "aclrtFreePhysical": {"handles": 1},
    "aclrtReleaseMemAddress": {"reservations": 1},
    "aclrtResetDevice": {"contexts": 1},  # the device's own
}


@pytest.mark.parametrize("call", LEFT)
def test_what_is_not_taken_back_is_all_that_is_left(spawn: Spawn, call: str) -> None:
    assert spawn(close_in_spite, call).result() == LEFT[call]


def host_memory_that_stays(parent: Parent) -> None:
    """Its second mapping is undone first."""
    settle(NPU_FAIL=f"aclrtUnmapMem:1={CODE}")
    with kf.Engine(options=options()) as engine:
        with pytest.raises(kf.DeviceError):
            engine.unregister(engine.allocate("first", SIZE))
        for name in ("second", "third"):
            engine.allocate(name, SIZE).store(b"fine")


def test_addresses_of_a_second_mapping_that_stays_are_not_used_again(spawn: Spawn) -> None:
    assert spawn(host_memory_that_stays).result() is None


def differ(parent: Parent) -> None:
    settle()
    others = {"acl_pids": False, "acl_sharing": "vmm-default", "va_start": 100 << 40}
    with kf.Engine(options=options()):
        for name, value in others.items():
            with pytest.raises(kf.UsageError, match=name) as refused:
                kf.Engine(options=options(**{name: value}))
            assert refused.value.cause == "device_options"
            kf.Engine(options=options(device=1, **{name: value})).close()
        kf.Engine(options=options()).close()
    kf.Engine(options=options(acl_pids=False)).close()
    assert books() == EMPTY


def test_engines_that_share_a_device_agree_on_it(spawn: Spawn) -> None:
    assert spawn(differ).result() is None


TOLD: dict[str, int | str] = {"runtime": "cann", "sharing": "vmm-fabric", "crosses": 1, "tgid": 7}


WRONG: list[dict[str, int | str]] = [
    {"runtime": "cuda"},
    {"runtime": 1},
    {"sharing": 2},
    {"crosses": "1"},
    {"tgid": -1},
    {"tgid": 1 << 31},
]


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_what_a_peer_tells_is_checked(change: dict[str, int | str]) -> None:
    ours = Facts(1, "boot", 1, {"fabric": dict(TOLD)})
    theirs = Facts(2, "boot", 1, {"fabric": {**TOLD, **change}})
    assert CannDriver.refuse(ours, ours) is None
    assert "the peer's memory" in (CannDriver.refuse(ours, theirs) or "")
