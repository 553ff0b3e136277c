"""Every error kvferry raises.

    Error                            all of them; carries what a caller needs to react
    |- UsageError(ValueError)        yours: bad range, bad buffer, bad address, unknown name
    |- RightsError(PermissionError)  yours: token refused, write into read-only memory
    |- ClosedError(RuntimeError)     yours: the engine, channel or region was closed
    |  `- ForkedError                yours: used in a child of the process that made it
    |- PathRefused(ConnectionError)  no path the pair can use; says why, candidate by candidate
    |- PeerError(ConnectionError)    theirs: not there, gone, silent, or another version
    |- Timeout(TimeoutError)         time: aborted, and quiet
    |  `- NotQuiet                   time: aborted, and a byte may still land
    |- Cancelled(Exception)          you cancelled it; quiet
    |- NoMemory(MemoryError)         the machine has not got the memory
    |- Unsupported(NotImplementedError)  the machine, or a library on it, cannot do it at all
    |- DeviceError(OSError)          a device or its driver failed
    `- Full(BlockingIOError)         a bounded queue or pool is full; try again later

Each also inherits the closest builtin, so code that knows nothing of kvferry catches it too.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = [
    "Cancelled",
    "ClosedError",
    "DeviceError",
    "Error",
    "ForkedError",
    "Full",
    "NoMemory",
    "NotQuiet",
    "PathRefused",
    "PeerError",
    "RightsError",
    "Timeout",
    "Unsupported",
    "UsageError",
]


class Error(Exception):
    """Base of all errors.

    cause          a stable symbol to branch on, such as ``"out_of_bounds"``
    peer           the peer's address, where there is one
    index          position of the offending descriptor in its batch
    range          (start, length) in bytes of the offending range: an absolute address
    bytes_moved    bytes known to be visible at the destination; None: unspecified
    safe_to_retry  the same call may be made again without risking older bytes on top of newer
    code           the number that another project's library gave it; None: it is ours
    detail         all that library said about it
    """

    def __init__(
        self,
        message: str,
        *,
        cause: str,
        peer: str | None = None,
        index: int | None = None,
        range: tuple[int, int] | None = None,
        bytes_moved: int | None = 0,
        safe_to_retry: bool = True,
        code: int | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.peer = peer
        self.index = index
        self.range = range
        self.bytes_moved = bytes_moved
        self.safe_to_retry = safe_to_retry
        self.code = code
        self.detail = detail

    def again(self) -> Error:
        """A twin to raise: one that was raised refers to the frames it passed through."""
        twin = type(self).__new__(type(self), *self.args)
        twin.args = self.args  # which OSError's __new__ leaves to an __init__
        twin.__dict__.update(self.__dict__)
        twin.__cause__ = self.__cause__
        return twin

    def __str__(self) -> str:
        parts = [str(self.args[0])]
        if self.index is not None:
            parts.append(f"descriptor {self.index}")
        if self.range is not None:
            start, length = self.range
            parts.append(f"range {start:#x}+{length:#x}")
        if self.peer is not None:
            parts.append(f"peer {self.peer}")
        return f"{', '.join(parts)} [{self.cause}]"


class UsageError(Error, ValueError):
    """The call was wrong. Nothing moved, unless `bytes_moved` is None."""


class RightsError(Error, PermissionError):
    """The caller may not do this. Nothing moved, unless `bytes_moved` is None."""


class ClosedError(Error, RuntimeError):
    """What the call works on was closed, unregistered or revoked."""


class ForkedError(ClosedError):
    """What the call works on belongs to the parent process."""


class PathRefused(Error, ConnectionError):
    """No candidate path works for this pair; ``rejected`` maps each to its reason."""

    def __init__(
        self, message: str, *, peer: str, rejected: dict[str, str], cause: str = "no_path"
    ) -> None:
        super().__init__(message, cause=cause, peer=peer)
        self.rejected = rejected


class PeerError(Error, ConnectionError):
    """The peer could not be reached, speaks another version, or is gone.

    From a transfer whose status is UNKNOWN: local memory is quiet, the remote side cannot be known.
    With the status FAILED: the peer hung up or was given up, and the transfer is quiet.
    """


class Timeout(Error, TimeoutError):
    """Time ran out; the operation was aborted and nothing more will be written."""


class NotQuiet(Timeout):
    """Time ran out and quiet did not come: bytes may still land in the buffers of the transfer.

    The buffers stay referenced and the channel is dead.
    """

    def __init__(self, message: str, *, peer: str, wait_quiet: Callable[[float | None], bool]):
        super().__init__(
            message, cause="not_quiet", peer=peer, bytes_moved=None, safe_to_retry=False
        )
        self._wait_quiet = wait_quiet

    def wait_quiet(self, timeout: float | None = None) -> bool:
        """Block until no byte can land any more; False when `timeout` seconds pass first."""
        return self._wait_quiet(timeout)


class Cancelled(Error):
    """The transfer was cancelled; nothing more will be written."""


class NoMemory(Error, MemoryError):
    """The machine, its control group or its page pool cannot give what was asked."""

    def __new__(cls, *args: object, **named: object) -> NoMemory:
        return Exception.__new__(cls, *args)  # MemoryError's own takes no class that is more


class Full(Error, BlockingIOError):
    """A bounded queue or pool is full."""


class Unsupported(Error, NotImplementedError):
    """This machine, or a library on it, cannot do it at all. Nothing moved."""


class DeviceError(Error, OSError):
    """A device or its driver failed. What moved is unspecified, and it need not be quiet."""
