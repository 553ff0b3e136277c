"""The class programs use: tuples and status codes, and the cause of a failure in the log."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from . import notifies
from .batches import rows_of
from .codes import (
    FAILED,
    FEATURE_SUPPORTED,
    PARAM_INVALID,
    SUCCESS,
    UNSUPPORTED,
    AsyncConnectStatus,
    FeatureType,
    MemType,
    TransferOp,
    TransferStatus,
)
from .failures import Refused, tell
from .pool import Kind, Task
from .session import Session
from .start import start
from .values import (
    GetTransferStatusArgs,
    MemDesc,
    NotifyDesc,
    TransferArgs,
    TransferOpDesc,
    TransferResult,
    integer,
    kind,
)

__all__ = ["Hixl", "get_capability"]

T = TypeVar("T")

MILLIS = 1000  # what calls take, if they are told nothing else

_text = kind(str)
_handle = integer(64)
_millis = integer(32, signed=True)


def get_capability(feature_type: FeatureType) -> tuple[int, int]:
    """(status, FEATURE_SUPPORTED): both features are there. Needs no engine."""
    kind(FeatureType)("feature_type", feature_type)
    return SUCCESS, FEATURE_SUPPORTED


class Hixl:
    """One engine. Every call returns a status, alone or before what was asked for; a wrong type is
    a TypeError. Thread-safe but for `finalize`, which is called when no other call is under way.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of initialize and finalize
        self._session: Session | None = None

    def initialize(self, local_engine: str, options: Mapping[str, str] | None = None) -> int:
        """Start. `local_engine` is ip, ip:port, [v6] or [v6]:port; with a port above 0 it listens.

        Again: SUCCESS, and nothing happens. After a failure nothing stays.
        """
        _text("local_engine", local_engine)
        if not isinstance(options, (Mapping, type(None))):
            raise TypeError(f"options is a dict, not {type(options).__name__}")
        given = dict(options or {})
        for key, value in given.items():
            _text("a key of options", key)
            _text(f"options[{key!r}]", value)
        with self._lock:
            if self._session is not None and not self._session.forked:
                return SUCCESS
            try:
                session = start(local_engine, given)
            except Exception as error:
                return tell("initialize", error)
            # Also when this object is dropped, or the interpreter ends.
            self._end = weakref.finalize(self, _close, session)
            self._session = session
        return SUCCESS

    def finalize(self) -> None:
        """End: channels are closed, memory is given back. Again: nothing happens."""
        with self._lock:
            session, self._session = self._session, None
            end = None if session is None else self._end
        if end is not None:
            end()

    # ---- memory ----

    def malloc_mem(self, mem_type: MemType, size: int) -> tuple[int, int]:
        """(status, address) of memory that peers can map; an extension. Zeroed."""
        kind(MemType)("mem_type", mem_type)
        _handle("size", size)
        return self._ask("malloc_mem", 0, lambda its: its.memory.allocate(mem_type, size))

    def free_mem(self, addr: int) -> int:
        """Give back what malloc_mem gave, once nothing of it is registered; an extension."""
        _handle("addr", addr)
        return self._do("free_mem", lambda its: its.memory.free(addr))

    def register_mem(self, mem_desc: MemDesc, mem_type: MemType) -> tuple[int, int]:
        """(status, handle). Transfers may name any part of it, and peers reach it."""
        kind(MemDesc)("mem_desc", mem_desc)
        kind(MemType)("mem_type", mem_type)
        where = (mem_desc.addr, mem_desc.len)
        return self._ask("register_mem", 0, lambda its: its.memory.register(*where, mem_type))

    def deregister_mem(self, mem_handle: int | None) -> int:
        """SUCCESS also for a handle that is over. FAILED under FabricMem while connected."""
        handle = 0 if mem_handle is None else _handle("mem_handle", mem_handle)

        def work(its: Session) -> None:
            if not handle:
                raise Refused(PARAM_INVALID, "the handle is null")
            if its.settings.fabric_mem and (names := its.connections.connected()):
                raise Refused(FAILED, f"connected to {', '.join(names)}: disconnect first")
            its.memory.deregister(handle)

        return self._do("deregister_mem", work)

    # ---- connections ----

    def connect(self, remote_engine: str, timeout_in_millis: int = MILLIS) -> int:
        """Returns when the channel is there, within so many milliseconds."""
        _text("remote_engine", remote_engine)
        _millis("timeout_in_millis", timeout_in_millis)
        return self._do(
            "connect",
            lambda its: its.connections.connect(remote_engine, _seconds(timeout_in_millis)),
        )

    def disconnect(self, remote_engine: str, timeout_in_millis: int = MILLIS) -> int:
        """Aborts what is under way, whose requests vanish. Waits for a copy's chunk at most."""
        _text("remote_engine", remote_engine)
        _millis("timeout_in_millis", timeout_in_millis)

        return self._do(
            "disconnect",
            lambda its: its.connections.disconnect(remote_engine, _seconds(timeout_in_millis)),
        )

    def connect_async(self, remote_engine: str, timeout_in_millis: int = MILLIS) -> int:
        """Returns at once; get_async_connect_status tells what became of it."""
        return self._submit(Kind.CONNECT, remote_engine, timeout_in_millis)

    def disconnect_async(self, remote_engine: str, timeout_in_millis: int = MILLIS) -> int:
        """Returns at once; see connect_async."""
        return self._submit(Kind.DISCONNECT, remote_engine, timeout_in_millis)

    def get_async_connect_status(self, remote_engine: str) -> tuple[int, AsyncConnectStatus]:
        """(status, what became of the last task for this peer)."""
        _text("remote_engine", remote_engine)
        nothing = AsyncConnectStatus.NOT_CONNECT
        return self._ask(
            "get_async_connect_status", nothing, lambda its: its.pool.status(remote_engine)
        )

    def get_all_async_connect_status(self) -> tuple[int, dict[str, AsyncConnectStatus]]:
        """(status, the same by peer)."""
        nothing: dict[str, AsyncConnectStatus] = {}
        return self._ask("get_all_async_connect_status", nothing, lambda its: its.pool.statuses())

    # ---- transfers ----

    def transfer_sync(
        self,
        remote_engine: str,
        op: TransferOp,
        op_descs: Sequence[TransferOpDesc],
        timeout_in_millis: int = MILLIS,
    ) -> int:
        """Returns when every byte is in place. TIMEOUT: it was stopped, and is quiet."""
        _text("remote_engine", remote_engine)
        kind(TransferOp)("op", op)
        _millis("timeout_in_millis", timeout_in_millis)
        rows = rows_of(op_descs)
        return self._do(
            "transfer_sync",
            lambda its: its.transfers.sync(remote_engine, op, rows, _seconds(timeout_in_millis)),
        )

    def transfer_async(
        self,
        remote_engine: str,
        op: TransferOp,
        op_descs: Sequence[TransferOpDesc],
        args: TransferArgs | None = None,
    ) -> tuple[int, int]:
        """(status, request). Its caller decides how long it may take, and disconnects then."""
        _text("remote_engine", remote_engine)
        kind(TransferOp)("op", op)
        user_data = 0 if args is None else kind(TransferArgs)("args", args).user_data
        rows = rows_of(op_descs)
        return self._ask(
            "transfer_async", 0, lambda its: its.transfers.begin(remote_engine, op, rows, user_data)
        )

    def get_transfer_status(self, req_id: int) -> tuple[int, TransferStatus]:
        """(status, where the request stands). COMPLETED and FAILED are told once."""
        _handle("req_id", req_id)
        nothing = TransferStatus.FAILED
        return self._ask("get_transfer_status", nothing, lambda its: its.transfers.status(req_id))

    def get_all_transfer_status(
        self, args: GetTransferStatusArgs | None = None
    ) -> tuple[int, list[TransferResult]]:
        """(status, results), oldest request first. UNSUPPORTED under FabricMem."""
        wanted = GetTransferStatusArgs() if args is None else args
        kind(GetTransferStatusArgs)("args", wanted)

        def work(its: Session) -> list[TransferResult]:
            if its.settings.fabric_mem:
                raise Refused(UNSUPPORTED, "under FabricMem requests are asked for one by one")
            return its.transfers.results(wanted.max_query_count, wanted.skip_waiting)

        return self._ask("get_all_transfer_status", [], work)

    # ---- notifies ----

    def send_notify(
        self, remote_engine: str, notify: NotifyDesc, timeout_in_millis: int = MILLIS
    ) -> int:
        """Returns when it is in the peer's queue. RESOURCE_EXHAUSTED: that is full."""
        _text("remote_engine", remote_engine)
        kind(NotifyDesc)("notify", notify)
        _millis("timeout_in_millis", timeout_in_millis)

        def work(its: Session) -> None:
            seconds = _seconds(timeout_in_millis)
            notifies.send(its.connections.get(remote_engine), notify, seconds)

        return self._do("send_notify", work)

    def get_notifies(self) -> tuple[int, list[NotifyDesc]]:
        """(status, all that have come since the last call, oldest first)."""
        return self._ask("get_notifies", [], lambda its: notifies.receive(its.engine))

    # ---- the edge ----

    def _submit(self, what: Kind, remote: str, millis: int) -> int:
        _text("remote_engine", remote)
        _millis("timeout_in_millis", millis)
        return self._do(
            f"{what.value}_async",
            lambda its: its.pool.submit(Task(what, remote, _seconds(millis))),
        )

    def _do(self, verb: str, work: Callable[[Session], None]) -> int:
        return self._ask(verb, None, work)[0]

    def _ask(self, verb: str, nothing: T, work: Callable[[Session], T]) -> tuple[int, T]:
        """SUCCESS and what `work` gives, or a status and `nothing`."""
        try:
            session = self._session
            if session is None:
                raise Refused(FAILED, "initialize was not called, or finalize was")
            if session.forked:
                raise Refused(FAILED, "the engine belongs to the parent of this process")
            return SUCCESS, work(session)
        except Exception as error:
            return tell(verb, error), nothing


def _close(session: Session) -> None:
    try:
        session.close()
    except Exception as error:  # a copy was not quiet within the grace; all is closed even then
        tell("finalize", error)


def _seconds(millis: int) -> float:
    if millis <= 0:
        raise Refused(PARAM_INVALID, f"timeout_in_millis is {millis}, not above 0")
    return millis / 1000
