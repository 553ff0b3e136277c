"""A node that begins again on its folder serves what lies there, and nothing else."""

from __future__ import annotations

import os
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvferry import Options
from kvferry.errors import DeviceError, Full, UsageError
from kvferry.store import Answer, Cause, Store
from tests.store.ssd.tiers import BROKEN, FULL, MIB, Faulty, keys_of, made, until, value, written

SIZE = 60_000
KEYS = keys_of(20)


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "ssd").glob("*.kvf"))


def test_it_serves_what_was_there(folder: Path) -> None:
    with made(folder) as tier:
        tier.put(KEYS, SIZE)
        tier.user.remove_batch(KEYS[:5])
        tier.user.put("last", b"not waited for")
    with made(folder) as tier:
        assert tier.user.exists_batch(KEYS).tolist() == [False] * 5 + [True] * 15
        assert tier.user.get_batch(KEYS[:5]) == [None] * 5
        assert tier.user.get_batch(KEYS[5:]) == [value(key, SIZE) for key in KEYS[5:]]
        assert tier.user.get("last") == b"not waited for"
        assert tier.user.put(KEYS[0], b"anew")
    with made(folder) as tier:
        assert tier.user.get(KEYS[0]) == b"anew"
        assert tier.user.get(KEYS[6]) == value(KEYS[6], SIZE)


def test_a_store_of_its_own_begins_again(folder: Path) -> None:
    """Nobody listens, and keys have the same digests all the same."""
    for turn in range(3):
        with Store(size=MIB, ssd=folder / "ssd", ssd_size=16 * MIB) as store:
            assert store.put(f"key {turn}", value("key", SIZE, turn))
            for before in range(turn + 1):
                assert store.get(f"key {before}") == value("key", SIZE, before)


def test_a_smaller_tier_makes_room(folder: Path) -> None:
    with made(folder, 8 * MIB) as tier:
        tier.put(keys_of(60), SIZE)
        assert written(folder) > 3 * MIB
    with made(folder, 2 * MIB) as tier:
        tier.put(["new"], SIZE)
        assert written(folder) <= 2 * MIB
        there = tier.user.exists_batch(keys_of(60))
        assert there.any()
        for key, here in zip(keys_of(60), there, strict=True):
            assert tier.user.get(key) == (value(key, SIZE) if here else None)


def test_a_smaller_tier_makes_room_though_nobody_puts(folder: Path) -> None:
    with made(folder, 8 * MIB) as tier:
        tier.put(keys_of(60), SIZE)
    with made(folder, 2 * MIB) as tier:
        until(lambda: written(folder) <= 2 * MIB)
        assert tier.ssd["objects"]


def test_what_no_smaller_segment_holds(folder: Path) -> None:
    """All that is left of a segment is larger than one is now."""
    with made(folder, 16 * MIB) as tier:
        tier.put(keys_of(4), SIZE * 5)
        assert all(tier.user.remove(key) for key in keys_of(3))
    with made(folder, MIB) as tier:
        tier.put(["new"], SIZE)
        assert tier.ssd["paused"] == 0
        assert written(folder) <= MIB


def test_a_forked_child_keeps_nobody_out(folder: Path) -> None:
    wanted: dict[str, Any] = {"size": MIB, "ssd": folder / "ssd", "ssd_size": MIB}
    read, write = os.pipe()
    with Store(**wanted) as store:
        assert store.put("key", b"of the parent")
        child = os.fork()
        if not child:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
    try:
        with Store(**wanted) as store:
            assert store.get("key") == b"of the parent"
    finally:
        os.close(read)
        os.close(write)
        os.waitpid(child, 0)


# ---- what does not belong there ----


def test_two_nodes_on_one_folder(folder: Path) -> None:
    with made(folder) as tier:
        tier.put(["key"], SIZE)
        with pytest.raises(UsageError) as error:
            Store(size=MIB, ssd=folder / "ssd", ssd_size=16 * MIB)
        assert error.value.cause == "ssd_in_use"
        assert tier.user.get("key") == value("key", SIZE)


def test_the_folder_of_another_token(folder: Path) -> None:
    """Its keys would be hashed otherwise: nothing could be found, and all would look right."""
    with made(folder) as tier:
        tier.put(["key"], SIZE)
    before = {path.name: path.read_bytes() for path in (folder / "ssd").iterdir()}
    token = folder / "token"
    token.write_bytes(b"another token, of somebody else")
    token.chmod(0o600)
    with pytest.raises(UsageError) as error:
        Store(size=MIB, ssd=folder / "ssd", ssd_size=16 * MIB, options=Options(token_file=token))
    assert error.value.cause == "ssd_owner"
    assert {path.name: path.read_bytes() for path in (folder / "ssd").iterdir()} == before
    with made(folder) as tier:
        assert tier.user.get("key") == value("key", SIZE)


@pytest.mark.parametrize(
    ("at", "cause"), [(8, "ssd_version"), (40, "ssd_damaged")], ids=["version", "damage"]
)
def test_the_folder_of_another_version(folder: Path, at: int, cause: str) -> None:
    with made(folder) as tier:
        tier.put(["key"], SIZE)
    identity = bytearray((folder / "ssd" / "identity").read_bytes())
    identity[at] ^= 0x40
    (folder / "ssd" / "identity").write_bytes(identity)
    with pytest.raises(UsageError) as error:
        Store(size=MIB, ssd=folder / "ssd", ssd_size=16 * MIB)
    assert error.value.cause in (cause, "ssd_damaged")


def test_segments_of_another_folder_are_not_believed(folder: Path) -> None:
    with made(folder) as tier:
        tier.put(["key"], SIZE)
    other = folder / "other"
    other.mkdir()
    with made(other) as tier:
        tier.user.put("key", b"of another node")
        tier.user.put("foreign", b"of another node")
    for path in segments(other):
        shutil.copy(path, folder / "ssd" / path.name.replace("0.kvf", "9.kvf"))
        shutil.copy(path, folder / "ssd" / f"{1 << 20:016x}.kvf")
    with made(folder) as tier:
        assert tier.user.get("key") == value("key", SIZE)
        assert tier.user.get("foreign") is None


def test_sizes_that_are_none(folder: Path) -> None:
    for wanted, cause in (
        ({"ssd": folder / "ssd"}, "ssd_size"),
        ({"ssd_size": "1GiB"}, "ssd_size"),
        ({"ssd": folder / "ssd", "ssd_size": 100}, "bad_size"),
        ({"ssd": folder / "ssd", "ssd_size": "many"}, "bad_size"),
    ):
        extra: dict[str, Any] = wanted
        with pytest.raises(UsageError) as error:
            Store(size=MIB, **extra)
        assert error.value.cause == cause
    with pytest.raises(UsageError) as error:
        Store("unix:///tmp/nobody", ssd=folder, ssd_size="1GiB")
    assert error.value.cause == "not_embedded"


# ---- damage ----


def test_a_flipped_byte_is_a_miss(folder: Path) -> None:
    with made(folder) as tier:
        tier.put(KEYS, SIZE)
    path = segments(folder)[0]
    content = bytearray(path.read_bytes())
    at = content.index(value(KEYS[0], SIZE)[:64]) + SIZE // 2
    content[at] ^= 1
    path.write_bytes(content)
    with made(folder) as tier:
        assert tier.user.get(KEYS[0]) is None
        assert tier.user.why(KEYS[0]).cause is Cause.CORRUPT
        assert not tier.user.exists(KEYS[0])
        assert tier.ssd["corrupt"] == 1
        assert tier.user.get_batch(KEYS[1:]) == [value(key, SIZE) for key in KEYS[1:]]
        assert tier.user.put(KEYS[0], b"anew")
        assert tier.user.get(KEYS[0]) == b"anew"


def test_a_segment_that_is_missing(folder: Path) -> None:
    """The second of several, while nobody looks, and while the node is at work."""
    with made(folder, 2 * MIB) as tier:
        tier.put(KEYS[:16], SIZE)
        assert tier.ssd["evicted"] == 0
    first, *_ = segments(folder)
    first.unlink()
    with made(folder, 2 * MIB) as tier:
        there = tier.user.exists_batch(KEYS[:16])
        assert there.any()
        assert not there.all()
        assert tier.user.get_batch(KEYS[:16]) == [
            value(key, SIZE) if here else None for key, here in zip(KEYS, there, strict=False)
        ]
    with made(folder, 2 * MIB) as tier:
        for path in segments(folder):
            path.unlink()
        got = [tier.user.get(key) for key in KEYS[:16]]
        assert all(each in (None, value(key, SIZE)) for key, each in zip(KEYS, got, strict=False))
        assert None in got


@pytest.mark.parametrize("refusal", [FULL, BROKEN], ids=["full", "broken"])
def test_a_disk_that_refuses(folder: Path, refusal: int) -> None:
    """Memory goes on; what is in memory still comes to the disk when it takes it again."""
    disk = Faulty()
    with made(folder, disk=disk) as tier:
        tier.put(["before"], SIZE)
        disk.fails_with = refusal
        for key in KEYS:
            tier.user.put(key, value(key, SIZE))
        until(lambda: tier.ssd["paused"] == 1)
        assert tier.user.get_batch(KEYS[-5:]) == [value(key, SIZE) for key in KEYS[-5:]]
        assert tier.user.get(KEYS[0]) is None
        assert tier.user.why(KEYS[0]).cause is Cause.EVICTED
        disk.fails_with = None
        until(lambda: tier.ssd["paused"] == 0 and tier.ssd["behind"] == 0)
        assert tier.ssd["objects"] > 5
    with made(folder) as tier:
        assert tier.user.get_batch(KEYS[-5:]) == [value(key, SIZE) for key in KEYS[-5:]]


class Small(Faulty):
    """A disk that is smaller than the tier was told."""

    def __init__(self, folder: Path, size: int) -> None:
        super().__init__()
        self.folder, self.size = folder, size

    def pwrite(self, fd: int, data: Any, at: int) -> int:
        if written(self.folder) + len(data) > self.size:
            raise OSError(FULL, "no space left")
        return super().pwrite(fd, data, at)


def test_a_disk_that_is_full_gives_up_what_is_oldest(folder: Path) -> None:
    """Segments of 256 KiB on a disk of 1 MiB."""
    with made(folder, 2 * MIB, Small(folder, MIB)) as tier:
        keys = keys_of(40)
        for key in keys:
            tier.put([key], SIZE)
        until(lambda: tier.ssd["paused"] == 0)
        there = tier.user.exists_batch(keys)
        assert there[-8:].all()
        assert not there[:8].any()
        assert tier.user.why(keys[0]).cause is Cause.EVICTED
        for key in keys[-16:]:
            assert tier.user.get(key) == (value(key, SIZE) if tier.user.exists(key) else None)


def test_a_disk_that_cannot_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A miss that says so; what lies there is found again when it can."""
    with made(folder) as tier:
        tier.put(KEYS, SIZE)

        def broken(*_: Any) -> Any:
            raise OSError(BROKEN, "the disk is not there")

        with monkeypatch.context() as patch:
            patch.setattr("kvferry.store.ssd.handles.Handles.take", broken)
            assert tier.user.get(KEYS[0]) is None
            assert tier.user.why(KEYS[0]).cause is Cause.UNREADABLE
            assert tier.ssd["unreadable"] == 1
        assert tier.user.get(KEYS[0]) == value(KEYS[0], SIZE)
        assert tier.user.why(KEYS[0]).cause is Cause.PRESENT


@pytest.mark.parametrize("refusal", [FULL, BROKEN], ids=["full", "broken"])
def test_a_disk_that_refuses_from_the_start(folder: Path, refusal: int) -> None:
    """A new folder cannot be; an old one is served, and pauses."""
    disk = Faulty()
    disk.fails_with = refusal
    with pytest.raises(DeviceError) as error, made(folder, disk=disk):
        pass
    assert error.value.cause == {FULL: "ssd_full", BROKEN: "ssd_io"}[refusal]
    with made(folder) as tier:
        tier.put(KEYS, SIZE)
    with made(folder, disk=disk) as tier:
        assert tier.user.get_batch(KEYS) == [value(key, SIZE) for key in KEYS]
        tier.user.put("new", b"in memory")
        until(lambda: tier.ssd["paused"] == 1)
        assert tier.user.get("new") == b"in memory"


def test_a_removal_that_the_disk_does_not_take(folder: Path) -> None:
    """It holds at once, and comes to the disk later."""
    disk = Faulty()
    with made(folder, disk=disk) as tier:
        tier.put(KEYS, SIZE)
        disk.fails_with = BROKEN
        assert tier.user.remove(KEYS[0])
        assert tier.user.get(KEYS[0]) is None
        disk.fails_with = None
        until(lambda: tier.ssd["paused"] == 0)
        tier.flush()
    with made(folder) as tier:
        assert tier.user.get(KEYS[0]) is None


# ---- clocks ----


@pytest.mark.parametrize("hours", [-48, 0, 48])
def test_the_wall_clock_jumps(folder: Path, hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a run it does not matter; across runs a value ends by what the wall says, and what
    has no end stays."""
    now, day = time.time_ns(), 86_400 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: now)
    with made(folder) as tier:
        tier.user.put("mortal", b"for a day", ttl=86_400)
        tier.user.put("immortal", b"for ever")
        tier.flush()
        monkeypatch.setattr(time, "time_ns", lambda: now + 7 * day)
        tier.put(KEYS, SIZE)
        assert tier.user.get("mortal") == b"for a day"
    monkeypatch.setattr(time, "time_ns", lambda: now + hours * 3600 * 10**9)
    with made(folder) as tier:
        assert tier.user.get("immortal") == b"for ever"
        assert tier.user.get("mortal") == (None if hours > 24 else b"for a day")
        tier.flush()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    with made(folder) as tier:  # what was over once is over for good
        assert tier.user.get("mortal") == (None if hours > 24 else b"for a day")


# ---- at once ----


def test_readers_and_writers_at_once(folder: Path) -> None:
    """More than memory holds, in six threads: every value is whole and of its key, of a version
    that was put and not removed before."""
    storm(folder, seconds=0.7)


@pytest.mark.slow
def test_readers_and_writers_at_once_in_full(folder: Path) -> None:
    storm(folder, seconds=20.0)


def storm(folder: Path, seconds: float) -> None:
    wrong: list[str] = []
    end = time.monotonic() + seconds

    def look(key: str) -> bytes | None:
        try:
            return tier.user.get(key)
        except Full:  # of what others read and write this moment
            return None

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        version = 0
        while time.monotonic() < end and not wrong:
            mine = int(random.integers(12))
            key = f"{seed} {mine}"
            got = look(key)
            known = versions.get(key)
            if got is not None and got != (known and value(key, *known)):
                wrong.append(f"{key}: {len(got)} bytes {got[:30]!r}, wanted {known}")
            turn = int(random.integers(4))
            if turn == 0:
                tier.user.remove(key)
                versions[key] = None
            elif turn < 3 and got is None:
                version += 1
                wanted = int(random.integers(100, 60_000)), version
                with suppress(Full):
                    if tier.user.put(key, value(key, *wanted)) is Answer.STORED:
                        versions[key] = wanted
            other = f"{random.integers(6)} {random.integers(12)}"
            got = look(other)
            if got is not None and not got.startswith(f"{other}/".encode()[: len(got)]):
                wrong.append(f"{other}: {got[:30]!r}")

    versions: dict[str, Any] = {}
    with made(folder, 2 * MIB) as tier:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert tier.ssd["hits"] > 0
    with made(folder, 2 * MIB) as tier:
        for key, known in versions.items():
            assert tier.user.get(key) in (None, known and value(key, *known))
