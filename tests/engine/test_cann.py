"""Engines whose memory is a device library's: two processes on the software NPU."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from kvferry.testing import Child, ChildFailed
from tests.engine.cann_party import BLOCK, EMPTY, pattern, refused, serve

SIZE = 2 << 20
BLOCKS = SIZE // BLOCK
PLACES = ("device", "host")
DIRECTIONS = list(product(("write", "read"), PLACES, PLACES))
OURS, THEIRS = [3, 0, 7, 30, 31, 12], [1, 2, 3, 9, 8, 31]

Spawn = Callable[..., Child]


class Two:
    """An initiator and a target, with a region of each place, and what must lie in each."""

    def __init__(
        self,
        spawn: Spawn,
        settings: dict[str, str] | None = None,
        *,
        ours: dict[str, Any] | None = None,
        theirs: dict[str, Any] | None = None,
        places: tuple[str, ...] = PLACES,
    ) -> None:
        settings = settings or {}
        self.sides = [
            spawn(serve, {**settings, **side.pop("settings", {})}, side)
            for side in (ours or {}, theirs or {})
        ]
        self.here, self.there = self.sides
        self.address = [side.hear() for side in self.sides][1]
        self.truth: dict[tuple[int, str], np.ndarray[Any, Any]] = {}
        for (number, side), place in product(enumerate(self.sides), places):
            side.ask(["allocate", place, SIZE, place])
            self.fill(number, place, seed=len(self.truth))

    def fill(self, side: int, place: str, seed: int) -> None:
        assert self.sides[side].ask(["fill", place, seed]) is None
        self.truth[side, place] = pattern(seed, SIZE)

    def connect(self, path: str, **more: Any) -> dict[str, Any]:
        told: dict[str, Any] = self.here.ask(["connect", self.address, path, more])
        return told

    def move(self, op: str, here: str, there: str, **more: Any) -> dict[str, Any]:
        told: dict[str, Any] = self.here.ask(
            ["move", op, here, there, OURS, THEIRS, *more.values()]
        )
        if "error" not in told:
            near, far = self.truth[0, here], self.truth[1, there]
            for ours, theirs in zip(OURS, THEIRS, strict=True):
                a, b = (
                    slice(ours * BLOCK, (ours + 1) * BLOCK),
                    slice(theirs * BLOCK, (theirs + 1) * BLOCK),
                )
                if op == "write":
                    far[b] = near[a]
                else:
                    near[a] = far[b]
        return told

    def check(self) -> None:
        """Every byte of every region."""
        for (side, place), truth in self.truth.items():
            assert self.sides[side].ask(["digest", place, 0, SIZE]) == zlib.crc32(truth), (
                side,
                place,
            )

    def end(self) -> None:
        """Nothing is left in either library."""
        for side in self.sides:
            assert side.result() == EMPTY


@pytest.fixture
def two(spawn: Spawn) -> Iterator[Two]:
    two = Two(spawn)
    yield two
    two.end()


@pytest.mark.parametrize("preset", ["ubshmem", "fabricmem"])
def test_all_eight_directions(two: Two, preset: str) -> None:
    told = two.connect(preset)
    assert told["path"] == "fabric/host/none"
    if preset == "fabricmem":
        assert "AICPU" in told["rejected"]["fabric/coprocessor/none"]
    for op, here, there in DIRECTIONS:
        report = two.move(op, here, there)
        assert report["bytes"] == len(OURS) * BLOCK
        assert report["staged"] == 0
    two.check()


@pytest.mark.parametrize(
    ("settings", "options", "places"),
    [
        ({}, {"acl_sharing": "vmm-default"}, PLACES),
        ({"NPU_PROFILE": "A2"}, {"acl_sharing": "ipc-key"}, ("device",)),
        ({"NPU_PROFILE": "950"}, {"acl_pids": False}, PLACES),
    ],
    ids=["handles of one server", "keys", "no list of importers"],
)
def test_every_kind_of_handle(
    spawn: Spawn, settings: dict[str, str], options: dict[str, Any], places: tuple[str, ...]
) -> None:
    two = Two(spawn, settings, ours=dict(options), theirs=dict(options), places=places)
    two.connect("ubshmem", streams=2)
    for op, here, there in product(("write", "read"), places, places):
        assert two.move(op, here, there)["path"] == "fabric/host/none"
    two.check()
    two.end()


def test_another_device_of_the_host(spawn: Spawn) -> None:
    two = Two(spawn, ours={"device": 3})
    two.connect("ubshmem")
    for op, here, there in DIRECTIONS:
        two.move(op, here, there)
    two.check()
    two.end()


def test_two_servers(spawn: Spawn) -> None:
    """Handles of the A3 cross servers; the copies are the devices' own."""
    two = Two(spawn, theirs={"settings": {"NPU_SERVER_ID": "7"}})
    two.connect("ubshmem")
    for op, here, there in DIRECTIONS:
        two.move(op, here, there)
    two.check()
    two.end()


def test_inline_is_the_callers_thread(two: Two) -> None:
    assert two.connect("fabric/inline")["path"] == "fabric/inline/none"
    for op, here, there in DIRECTIONS:
        report = two.move(op, here, there)
        assert (report["inline"], report["submissions"]) == (1, 0)
    two.check()


def test_memory_of_others_is_shared_without_a_copy(two: Two) -> None:
    """Tensors of torch_npu, of an allocation that this engine did not make."""
    start, length = 1 << 20, 2 << 20
    two.there.ask(["borrow", "tensors", "them", start, length])
    two.fill(1, "tensors", seed=9)
    two.connect("ubshmem")
    for op, here in product(("write", "read"), PLACES):
        report = two.move(op, here, "tensors")
        assert (report["path"], report["staged"]) == ("fabric/host/none", 0)
    two.check()
    two.here.ask(["leave"])
    del two.truth[1, "tensors"]
    assert two.there.ask(["unregister", "tensors"]) is None
    assert two.there.ask(["give_back", "them"]) is None


def test_over_sockets_device_memory_is_staged_at_both_ends(two: Two) -> None:
    """And counted: once here, once at the peer."""
    told = two.connect("tcp/host/bounce")
    assert told["path"] == "tcp/host/bounce"
    moved = len(OURS) * BLOCK
    for op, here, there in DIRECTIONS:
        report = two.move(op, here, there)
        ends = {"device": moved, "host": 0}
        if here == "device":
            assert report["staged"] == ends[here] + ends[there]
        else:  # a pool also joins short pieces
            assert report["staged"] in (ends[there], ends[there] + moved)
    two.check()


def test_the_kernel_copies_what_is_staged_here(two: Two) -> None:
    """Over cma, device memory of this side only; the peer's is not to be had, and says so."""
    told = two.connect("cma/host/bounce")
    assert told["path"] == "cma/host/bounce"
    assert told["regions"] == ["host"]
    for op, here in product(("write", "read"), PLACES):
        report = two.move(op, here, "host")
        assert report["staged"] == (len(OURS) * BLOCK if here == "device" else 0)
    two.check()


@pytest.mark.parametrize("path", ["tcp/host/none", "cma/host/none"])
def test_what_cannot_touch_device_memory_refuses_it(two: Two, path: str) -> None:
    two.connect(path)
    told = two.move("write", "device", "host")
    assert (told["error"], told["cause"], told["moved"]) == ("UsageError", "device_memory", 0)
    assert "bounce" in told["text"]
    assert two.move("write", "host", "host")["bytes"] == len(OURS) * BLOCK
    two.check()


# What the device's library says in the middle of a batch -> how the transfer ends.
FAILURES = {
    507056: ("PeerError", "fabric_link"),
    507057: ("PeerError", "fabric_remote"),
    507010: ("DeviceError", "device_silent"),
    507013: ("DeviceError", "dma"),
    507053: ("DeviceError", "device_memory"),
    107020: ("DeviceError", "timeout"),
    107022: ("DeviceError", "aborted"),
}


def test_the_library_fails_in_the_middle_of_a_batch(spawn: Spawn) -> None:
    """Each code ends one transfer, on streams of its own; the channel carries the next."""
    transfer = len(OURS) + 1  # copies, and the flag
    at = {code: 3 + number * (transfer + 3) for number, code in enumerate(FAILURES)}
    fail = ",".join(f"task:{n}={code}" for code, n in at.items())
    two = Two(spawn, ours={"settings": {"NPU_FAIL": fail}})
    two.connect("ubshmem", streams=1)
    for code, (error, cause) in FAILURES.items():
        told = two.move("write", "device", "device")
        assert (told["error"], told["cause"], told["code"]) == (error, cause, code)
        assert (told["moved"], told["retry"]) == (None, False)
        assert str(code) in told["text"]
        assert two.move("write", "device", "device")["bytes"] == len(OURS) * BLOCK
    two.check()
    two.end()


@pytest.mark.parametrize("call", ["aclrtMemcpyAsync", "aclrtStreamQuery", "aclrtStreamAbort"])
def test_a_call_of_the_library_fails(spawn: Spawn, call: str) -> None:
    """A stream that cannot be asked, or stopped, is not used again."""
    settings = {"NPU_FAIL": f"{call}:1=507899", "NPU_DELAY": "3"}
    two = Two(spawn, ours={"settings": settings})
    two.connect("ubshmem", streams=1)
    told = two.move(
        "write", "device", "host", timeout=10.0 if call != "aclrtStreamAbort" else 0.002
    )
    assert told["error"] in ("DeviceError", "Timeout")
    assert two.move("write", "device", "host")["bytes"] == len(OURS) * BLOCK
    two.check()
    two.end()


def test_a_stream_that_cannot_be_stopped_is_not_quiet_until_the_end(spawn: Spawn) -> None:
    settings = {"NPU_FAIL": "aclrtStreamAbort=507899", "NPU_DELAY": "50"}
    two = Two(spawn, ours={"settings": settings, "quiet_grace": 0.1})
    two.connect("ubshmem", streams=1)
    told = two.move("write", "device", "host", timeout=0.05)
    assert (told["error"], told["moved"]) == ("NotQuiet", None)
    with pytest.raises(ChildFailed, match="NotQuiet"):
        two.here.result()
    assert two.there.result() == EMPTY


def test_a_timeout_is_quiet(spawn: Spawn) -> None:
    two = Two(spawn, ours={"settings": {"NPU_DELAY": "20"}})
    two.connect("ubshmem", streams=1)
    told = two.move("read", "device", "host", timeout=0.05)
    assert (told["error"], told["cause"], told["moved"]) == ("Timeout", "timeout", None)
    two.fill(0, "device", seed=11)
    two.check()
    assert two.move("read", "device", "host")["bytes"] == len(OURS) * BLOCK
    two.check()
    two.end()


def test_a_peer_that_is_killed_is_unknown_and_its_memory_stays(spawn: Spawn) -> None:
    """Copies to memory whose owner is gone succeed, and say nothing."""
    two = Two(spawn)
    two.connect("ubshmem")
    two.move("write", "device", "device")
    two.there.kill()
    told = two.move("write", "device", "device")
    assert (told["error"], told["retry"]) == ("PeerError", False)
    assert two.here.result() == EMPTY


def test_a_handle_that_cannot_be_imported(spawn: Spawn) -> None:
    """The connection fails with the vendor's code, leaves nothing, and can be tried again."""
    call = "aclrtMemImportFromShareableHandleV2"
    # The first two are of its own host memory, which it maps for the device.
    two = Two(spawn, ours={"settings": {"NPU_FAIL": f"{call}:2=507899"}})
    told = two.connect("ubshmem")
    assert (told["error"], told["code"]) == ("DeviceError", 507899)
    assert two.connect("ubshmem")["regions"] == ["device", "host"]
    two.move("read", "device", "device")
    two.check()
    two.end()


def test_who_shares_otherwise_takes_another_path(spawn: Spawn) -> None:
    two = Two(spawn, theirs={"acl_sharing": "vmm-default"})
    told = two.connect("ubshmem")
    assert told["error"] == "PathRefused"
    assert "vmm-default" in told["text"]
    told = two.connect("auto")
    assert told["path"].startswith(("cma", "tcp"))
    two.end()


BAD = {
    "no such device": ({"device": 99}, {}, "UsageError", "bad_device"),
    "no such runtime": ({"runtime": "cuda"}, {}, "UsageError", "runtime"),
    "no such library": (
        {"acl_library": "/nowhere/libascendcl.so"},
        {},
        "Unsupported",
        "no_library",
    ),
    "a reservation where the A3 has none": ({"va_start": 1 << 40}, {}, "UsageError", None),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options_are_refused_and_leave_nothing(spawn: Spawn, name: str) -> None:
    changes, settings, error, cause = BAD[name]
    told, books = spawn(refused, settings, changes).result()
    assert told["error"] == error
    assert cause is None or told["cause"] == cause
    assert books == EMPTY


def test_bad_sizes_are_refused_before_any_call(spawn: Spawn) -> None:
    two = Two(spawn, ours={"settings": {"NPU_CAPACITY": "8M"}}, places=("device",))
    for size, cause in ((0, "bad_size"), (-1, "bad_size"), (1 << 60, "no_memory")):
        told = two.here.ask(["allocate", "more", size, "device"])
        assert told["cause"] == cause
        assert told["code"] is None
    told = two.here.ask(["allocate", "more", 16 << 20, "device"])
    assert (told["error"], told["code"]) == ("NoMemory", 207001)
    two.end()
