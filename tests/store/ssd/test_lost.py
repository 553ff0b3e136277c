"""Segments that are lost, or of which the disk gives back something else: what was removed later
stays removed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvferry.store import Cause
from tests.store.ssd.tiers import MIB, keys_of, made, value

SIZE = 60_000
OLD, LATER = keys_of(3, "old"), keys_of(12, "later")  # four fill a segment


@pytest.fixture(scope="module")
def worn() -> Iterator[Path]:
    """A value lies in the first segment, and in the second it says that it was removed."""
    folder = Path(tempfile.mkdtemp(prefix="kvfe_"))
    with made(folder, 2 * MIB) as tier:
        tier.put(["removed", *OLD], SIZE)
        assert tier.user.remove("removed")
        tier.put(LATER, SIZE)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def second(worn: Path, folder: Path) -> Path:
    """The second segment of a copy."""
    shutil.copytree(worn / "ssd", folder / "ssd")
    return folder / "ssd" / f"{1:016x}.kvf"


def gone(path: Path) -> None:
    path.unlink()


def head(path: Path) -> None:
    flip(path, 20)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def run(path: Path) -> None:
    """Of which no index tells."""
    path.with_suffix(".idx").unlink()
    flip(path, 4096 + 100)


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [gone, head, empty, cut, run])
def test_nothing_that_was_removed_comes_back(
    damage: Callable[[Path], None], second: Path, folder: Path
) -> None:
    damage(second)
    for _ in range(2):  # also when it begins a second time
        with made(folder, 2 * MIB) as tier:
            assert tier.user.get_batch(["removed", *OLD]) == [None] * 4
            assert tier.user.get(LATER[-1]) == value(LATER[-1], SIZE)
    assert not second.exists()


def test_it_says_why(second: Path, folder: Path) -> None:
    gone(second)
    with made(folder, 2 * MIB) as tier:
        assert tier.user.why(OLD[0]).cause is Cause.CORRUPT
        assert tier.user.put("removed", b"anew")


def test_the_last_segment_with_an_index(second: Path, folder: Path) -> None:
    """It was whole once: what is missing at its end is no crash."""
    last = max(second.parent.glob("*.kvf"))
    cut(last)
    with made(folder, 2 * MIB) as tier:
        assert not tier.user.exists_batch(["removed", *OLD, *LATER]).any()
        assert tier.user.put("removed", b"anew")
