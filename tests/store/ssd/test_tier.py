"""What does not fit into memory lies on the disk, and is read as if it had never left."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kvferry import _core
from kvferry.errors import Full
from kvferry.rpc.workers import MAX_WORKERS
from kvferry.store import Answer, Cause, Pin, Store
from kvferry.store.answers import Answers, Digests
from kvferry.store.ssd import Tier, segments
from kvferry.store.ssd.behind import Behind
from tests.store.settings import node_of, over_tcp
from tests.store.ssd.tiers import MIB, Faulty, Made, keys_of, made, until, value, written

SIZE = 100_000  # ten of them fill a pool
KEYS = keys_of(24)


@pytest.fixture
def tier(folder: Path) -> Iterator[Made]:
    with made(folder) as here:
        yield here


@pytest.mark.parametrize("way", ["embedded", "mapped", "far"])
def test_it_is_read_as_if_it_had_not_left(way: str, folder: Path) -> None:
    listen = (f"unix://{folder}/node", "127.0.0.1:0")
    with Store(size=MIB, ssd=folder / "ssd", ssd_size="16MiB", listen=listen) as owner, over_tcp():
        address = {"mapped": listen[0], "far": f"kv://{owner.engine.addresses[1]}"}.get(way)
        user = owner if address is None else Store(address)
        for key in KEYS:
            assert user.put(key, value(key, SIZE)) is Answer.STORED
            flush(owner)
        assert user.exists_batch(KEYS).all()
        assert user.put(KEYS[0], b"another") is Answer.PRESENT
        for key in KEYS[:6]:
            assert user.get(key) == value(key, SIZE)
        for key in KEYS[6:12]:
            out = bytearray(SIZE)
            assert user.get_into(key, out) == SIZE
            assert out == value(key, SIZE)
        for key in KEYS[12:18]:
            with user.view(key) as block:
                assert bytes(block or b"") == value(key, SIZE)
        assert user.get_batch(KEYS) == [value(key, SIZE) for key in KEYS]
        outs = [bytearray(SIZE) for _ in KEYS]
        assert set(user.get_batch_into(KEYS, outs)) == {Answer.FOUND}
        assert outs == [value(key, SIZE) for key in KEYS]
        assert user.why(KEYS[0]).cause is Cause.PRESENT
        assert user.get("never") is None
        figures = owner.stats()["ssd"]
        assert figures["objects"] == len(KEYS)
        assert figures["hits"] >= len(KEYS)
        assert figures["demoted"] >= len(KEYS) - 10
        assert figures["lost"] == figures["corrupt"] == figures["paused"] == 0
        if way != "embedded":
            user.close()


def flush(owner: Store) -> None:
    tier = node_of(owner).tier
    assert tier is not None
    assert tier.flush(15)


def test_a_batch_larger_than_memory_comes_in_parts(tier: Made) -> None:
    keys = keys_of(60)
    tier.put(keys, SIZE)
    outs = [bytearray(SIZE) for _ in keys]
    results = tier.user.get_batch_into([*keys, "never"], [*outs, bytearray(1)])
    assert set(results[:-1]) == {Answer.FOUND}
    assert results[-1] is Answer.ABSENT
    assert outs == [value(key, SIZE) for key in keys]


def test_a_buffer_that_is_too_small(tier: Made) -> None:
    tier.put(KEYS, SIZE)
    out = bytearray(b"x" * 10)
    (answer,) = tier.user.get_batch_into([KEYS[0]], [out])
    assert answer is Answer.TOO_SMALL
    assert out == b"x" * 10


def test_what_is_removed_is_on_no_disk(tier: Made) -> None:
    tier.put(KEYS, SIZE)
    old, new = KEYS[0], KEYS[-1]
    assert tier.user.remove(old)
    assert tier.user.remove(new)
    assert not tier.user.remove(old)
    assert tier.user.exists_batch([old, new]).tolist() == [False, False]
    assert tier.user.get_batch([old, new]) == [None, None]
    assert tier.user.why(old).cause is tier.user.why(new).cause is Cause.REMOVED
    assert tier.user.put(old, b"anew") is Answer.STORED
    tier.put(keys_of(12, "more"), SIZE)
    assert tier.user.get(old) == b"anew"
    assert tier.ssd["hits"] > 0


def test_what_is_removed_while_it_is_written(folder: Path) -> None:
    """The row that is on its way says what was; a later one has to say that it is void."""
    disk = Faulty()
    with made(folder, disk=disk) as tier:
        tier.user.put("key", b"one")
        tier.flush()
        disk.open_gate.clear()
        tier.user.put("gone", b"one")
        tier.user.put("again", b"one")
        assert disk.waiting.wait(15)
        other = threading.Thread(target=tier.user.remove_batch, args=(["gone", "again"],))
        other.start()
        until(lambda: not tier.user.exists("again"))
        assert tier.user.put("again", b"two") is Answer.STORED
        disk.open_gate.set()
        other.join()
        tier.flush()
        assert tier.user.get_batch(["key", "gone", "again"]) == [b"one", None, b"two"]
    with made(folder) as tier:
        assert tier.user.get_batch(["key", "gone", "again"]) == [b"one", None, b"two"]


def test_what_expires(tier: Made) -> None:
    for key in KEYS[:20]:
        tier.user.put(key, value(key, SIZE), ttl=1.0 if key == KEYS[0] else None)
        tier.flush()
    assert tier.user.get(KEYS[0]) == value(KEYS[0], SIZE)
    tier.put(KEYS[20:], SIZE)
    until(lambda: not tier.user.exists(KEYS[0]))
    assert tier.user.get(KEYS[0]) is None
    assert tier.user.why(KEYS[0]).cause is Cause.EXPIRED
    assert tier.user.get(KEYS[1]) == value(KEYS[1], SIZE)


def test_the_disk_never_holds_more_than_it_may(folder: Path) -> None:
    size, keys = 2 * MIB, keys_of(45)
    with made(folder, size) as tier:
        for key in keys:
            tier.put([key], SIZE)
            assert written(folder) <= size
            assert tier.user.get(keys[0]) == value(keys[0], SIZE)  # always read, always there
        there = tier.user.exists_batch(keys)
        assert 10 < there.sum() < 30
        assert not there[1:20].any()
        assert tier.user.why(keys[5]).cause is Cause.EVICTED
        assert tier.user.get_batch(keys) == [
            value(key, SIZE) if here else None for key, here in zip(keys, there, strict=True)
        ]
        assert tier.ssd["evicted"] > 20


def test_small_values_have_large_indices(folder: Path) -> None:
    """As many bytes in rows as in values; all of it counts."""
    with made(folder, MIB, objects=4096) as tier:
        for start in range(0, 9000, 1000):
            keys = [f"small {start + at}" for at in range(1000)]
            assert set(tier.user.put_batch(keys, [b"x" * 40] * 1000)) == {Answer.STORED}
            tier.flush()
            assert written(folder) <= MIB
        assert tier.ssd["evicted"] + tier.ssd["lost"] > 0
        assert tier.user.get("small 8999") == b"x" * 40


def test_segments_of_which_little_lives_are_gathered(folder: Path) -> None:
    """What stays is as old as can be, and survives because all around it was removed."""
    keys = keys_of(40)
    with made(folder, 2 * MIB) as tier:
        for key in keys:
            tier.put([key], 30_000)
        going = [key for at, key in enumerate(keys) if at % 8]
        assert set(tier.user.remove_batch(going)) == {Answer.REMOVED}
        tier.put(keys_of(40, "more"), 30_000)
        staying = keys[::8]
        assert tier.user.get_batch(staying) == [value(key, 30_000) for key in staying]
        assert tier.user.get_batch(going) == [None] * len(going)
    with made(folder, 2 * MIB) as tier:
        assert tier.user.get_batch(going) == [None] * len(going)


def test_puts_wait_for_no_disk(folder: Path) -> None:
    disk = Faulty()
    with made(folder, disk=disk) as tier:
        disk.open_gate.clear()
        for key in KEYS:
            assert tier.user.put(key, value(key, SIZE)) is Answer.STORED
        assert tier.user.get(KEYS[-1]) == value(KEYS[-1], SIZE)
        assert disk.waiting.wait(15)
        disk.open_gate.set()
        tier.flush()
        there = tier.user.exists_batch(KEYS)
        assert there[-5:].all()
        assert not there.all()
        assert tier.user.why(KEYS[there.argmin()]).cause is Cause.EVICTED
        assert tier.ssd["lost"] > 0


def test_those_leave_first_that_are_on_the_disk(folder: Path) -> None:
    disk = Faulty()
    with made(folder, disk=disk) as tier:
        tier.put(KEYS[:5], SIZE)
        disk.open_gate.clear()
        for key in KEYS[5:9]:
            tier.user.put(key, value(key, SIZE))
        assert tier.user.get_batch(KEYS[:5]) == [value(key, SIZE) for key in KEYS[:5]]
        tier.user.put("new", bytes(3 * SIZE))  # the oldest are in no other place
        assert tier.user.get_batch(KEYS[5:9]) == [value(key, SIZE) for key in KEYS[5:9]]
        assert tier.ssd["lost"] == 0
        disk.open_gate.set()


def test_those_who_want_the_same_read_it_once(tier: Made) -> None:
    tier.put(KEYS, SIZE)
    assert tier.node.index.count < len(KEYS)
    before, got, start = tier.ssd["hits"], [], threading.Barrier(8)

    def get() -> None:
        start.wait()
        got.append(tier.user.get(KEYS[0]))

    others = [threading.Thread(target=get) for _ in range(8)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert got == [value(KEYS[0], SIZE)] * 8
    assert tier.ssd["hits"] == before + 1


def test_leases_and_pins_bring_it_in(tier: Made) -> None:
    tier.put(KEYS, SIZE)
    with tier.user.lease([KEYS[0]], 30) as lease:
        assert lease.held.all()
        assert set(tier.user.pin([KEYS[1]])) == {Answer.FOUND}
        tier.put(keys_of(12, "more"), SIZE)
        assert tier.node.index.find(_digests(tier, KEYS[:2])).min() >= 0
        assert set(tier.user.remove_batch([KEYS[0]])) == {Answer.LEASED}
        assert tier.user.exists(KEYS[0])


def test_leases_and_pins_bring_in_as_much_as_fits(tier: Made) -> None:
    """More than comes in at a time."""
    tier.put(KEYS, SIZE)
    with tier.user.lease(KEYS[:4], 30) as lease:
        assert lease.held.all()
    assert set(tier.user.pin(KEYS[8:12])) == {Answer.FOUND}
    assert set(tier.user.group(KEYS[12:16])) == {Answer.FOUND}


def test_others_wait_for_no_whole_segment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of values that are very small a segment holds very many."""
    most, empty = 16, Behind.empty
    at_once: list[int] = []

    def seen(behind: Behind, number: int, part: slice) -> Any:
        at_once.append(len(behind.shelf.contents(number, part)))
        return empty(behind, number, part)

    monkeypatch.setattr(segments, "PART", most)
    monkeypatch.setattr(Behind, "empty", seen)
    with made(folder, 2 * MIB) as tier:
        tier.user.put_batch(keys_of(300, "small"), [b"small"] * 300)
        tier.put(KEYS, SIZE)
        assert tier.ssd["evicted"] >= 300
    assert sum(at_once) >= 300
    assert max(at_once) <= most


def _digests(tier: Made, keys: list[str]) -> NDArray[np.uint64]:
    return _core.digest(keys, tier.node.secret)


def test_where_memory_has_no_room_it_says_why(tier: Made) -> None:
    tier.put(KEYS, SIZE)
    here = [key for key in KEYS if tier.node.index.find(_digests(tier, [key]))[0] >= 0]
    tier.user.pin(here)
    with pytest.raises(Full) as error:
        tier.user.get(KEYS[0])
    assert error.value.cause == "pinned"
    tier.user.pin(here, Pin.NONE)
    assert tier.user.get(KEYS[0]) == value(KEYS[0], SIZE)


def test_a_value_that_is_too_large_for_a_segment(folder: Path) -> None:
    with made(folder, 2 * MIB) as tier:
        tier.user.put("large", value("large", 300_000))
        tier.put(["small"], 1000)
        assert tier.ssd["too_large"] == 1
        assert tier.user.get("large") == value("large", 300_000)
        assert tier.ssd["objects"] == 1


class Hung(Faulty):
    """A disk whose segments cannot be opened for a while."""

    def open(self, path: Path, flags: int, mode: int) -> int:
        if path.suffix == ".kvf" and not flags & os.O_WRONLY:
            self.open_gate.wait(20)
        return os.open(path, flags, mode)


def test_who_waits_for_the_disk_keeps_nobody_else_waiting(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than there are threads that answer."""
    keys, fetch = keys_of(MAX_WORKERS + 10), Tier.fetch
    asked: set[int] = set()

    def seen(tier: Tier, digests: Digests) -> Answers:
        asked.add(int(digests[0][0]))
        return fetch(tier, digests)

    with made(folder) as tier:
        tier.user.put_batch(keys, [value(key, 1000) for key in keys])
        tier.flush()
    monkeypatch.setattr(Tier, "fetch", seen)
    disk = Hung()
    with (
        made(folder, disk=disk) as tier,
        Store(f"unix://{folder}/node") as other,
        ThreadPoolExecutor(len(keys)) as threads,
    ):
        disk.open_gate.clear()
        got = [threads.submit(tier.user.get, key) for key in keys]
        try:
            until(lambda: len(asked) >= MAX_WORKERS)
            assert other.put("other", b"value") is Answer.STORED
            assert other.stats()["ssd"]["hits"] == 0
        finally:
            disk.open_gate.set()
        assert [each.result() for each in got] == [value(key, 1000) for key in keys]
