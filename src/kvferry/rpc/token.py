"""The shared secret of everyone who may talk to each other."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from pathlib import Path

from ..config import Options
from ..errors import RightsError

__all__ = ["derive", "exposure", "load", "read"]

MAX_SIZE = 4096


def load(options: Options) -> bytes:
    """The token that `options` gives, or that of its token file, which is made when missing.

    Safe against other processes that do the same at once: all end with one token. Raises
    RightsError(cause="token") that names the file and what to do about it.
    """
    if options.token is not None:
        if not options.token:
            raise RightsError("the token is empty; set KVFERRY_TOKEN or unset it", cause="token")
        return options.token
    file = options.token_file
    try:
        return _read(file) or _make(file)
    except RightsError:
        raise
    except OSError as error:
        mend = "give this user access to it or name another in KVFERRY_TOKEN_FILE"
        raise _unusable(file, error, mend) from error


def derive(token: bytes, purpose: bytes) -> bytes:
    """16 bytes for one purpose, from which the token does not follow."""
    key = hashlib.blake2b(token).digest()
    return hashlib.blake2b(purpose, key=key, digest_size=16).digest()


def read(file: Path, most: int = MAX_SIZE) -> bytes | None:
    """What a file of secrets says, `most` bytes at most; None when there is no such file. Raises
    RightsError as load does, when it is not this user's alone."""
    try:
        return _read(file, most)
    except RightsError:
        raise
    except OSError as error:
        raise _unusable(file, error, "give this user access to it") from error


def _read(file: Path, most: int = MAX_SIZE) -> bytes | None:
    """The checked content; None when there is no such file."""
    try:
        # Non-blocking, so that a fifo put there cannot hold us.
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        _check(file, os.fstat(fd), most)
        content = os.read(fd, most + 1)
    finally:
        os.close(fd)
    if len(content) > most:
        raise _too_long(file, most)
    token = content.strip()
    if not token:
        raise _refused(file, "is empty", "remove it, and a new one is made")
    return token


def _check(file: Path, status: os.stat_result, most: int) -> None:
    # Of the opened file, not of the name: the name may point elsewhere a moment later.
    trouble = exposure(file, status)
    if trouble is not None:
        raise _refused(file, *trouble)
    if status.st_size > most:
        raise _too_long(file, most)


def exposure(file: Path, status: os.stat_result) -> tuple[str, str] | None:
    """Why an opened file is no place for a secret of this user's, and what to do about it."""
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file", "name another file"
    if status.st_uid != os.geteuid():
        return f"belongs to uid {status.st_uid}", f"chown it to uid {os.geteuid()}"
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = stat.S_IMODE(status.st_mode)
        return f"is open to others (mode {mode:04o})", f"chmod 600 {file}"
    return None


def _make(file: Path) -> bytes:
    """Makes the file, complete as soon as it has its name; who comes second reads the first's."""
    _make_directories(file.parent)
    draft = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(8)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "w") as opened:
            opened.write(secrets.token_hex(32) + "\n")
        with contextlib.suppress(FileExistsError):  # another process was quicker: its token counts
            os.link(draft, file)
    finally:
        draft.unlink()
    token = _read(file)
    if token is None:
        raise _refused(file, "was removed while it was read", "try again")
    return token


def _make_directories(directory: Path) -> None:
    # Path.mkdir(parents=True) gives its mode to the last directory only.
    if not directory.exists():
        _make_directories(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


def _too_long(file: Path, most: int) -> RightsError:
    return _refused(file, f"is longer than {most} bytes", "put a shorter one there or remove it")


def _unusable(file: Path, error: OSError, mend: str) -> RightsError:
    return _refused(file, f"cannot be used ({error.strerror or error})", mend)


def _refused(file: Path, what: str, mend: str) -> RightsError:
    return RightsError(f"token file {file} {what}; {mend}", cause="token")
