"""Engines on the software NPU, each in a process of its own, for tests to talk to."""

from __future__ import annotations

import ctypes
import os
import zlib
from collections.abc import Callable
from typing import Any

import kvferry as kf
from kvferry.connectors.torch_npu import library_path
from kvferry.runtime import Place
from kvferry.testing import Parent
from tests.engine.target import pattern
from tests.npu.acl import LIBRARY
from tests.runtime.cann.npu import EMPTY, books

BLOCK = 64 << 10
SIZE_OF_TORCH = 4 << 20


def options(**changes: Any) -> kf.Options:
    token = kf.config.from_environment().token_file
    defaults = {"token_file": token, "runtime": "cann", "acl_library": str(LIBRARY)}
    return kf.Options(**{**defaults, "quiet_grace": 1.0, **changes})


def serve(parent: Parent, settings: dict[str, str], changes: dict[str, Any]) -> dict[str, int]:
    """Carries out what the parent asks, until it hangs up; the library's books after all of it."""
    os.environ.update({"NPU_QUIET": "1", "KVFERRY_ACL_LIBRARY": str(LIBRARY), **settings})
    with kf.Engine("127.0.0.1:0", options=options(**changes)) as engine:
        parent.tell(engine.addresses[0])
        peers: dict[str, kf.Channel] = {}
        for verb, *arguments in parent:
            parent.tell(answer(engine, peers, verb, arguments))
        peers.clear()
    return books()


def refused(
    parent: Parent, settings: dict[str, str], changes: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, int]]:
    """What making an engine raises, and what is left of it in the library's books."""
    os.environ.update({"NPU_QUIET": "1", **settings})
    try:
        kf.Engine(options=options(**changes)).close()
    except kf.Error as error:
        return told(error), books()
    return {"error": None}, books()


def answer(engine: kf.Engine, peers: dict[str, kf.Channel], verb: str, arguments: list[Any]) -> Any:
    """What a verb gives, or what it raises: its class, cause, code, and whether bytes moved."""
    try:
        return VERBS[verb](engine, peers, *arguments)
    except kf.Error as error:
        return told(error)


def told(error: kf.Error) -> dict[str, Any]:
    return {
        "error": type(error).__name__,
        "cause": error.cause,
        "code": error.code,
        "moved": error.bytes_moved,
        "retry": error.safe_to_retry,
        "text": str(error),
    }


def allocate(
    engine: kf.Engine, peers: dict[str, kf.Channel], name: str, size: int, place: str
) -> int:
    return engine.allocate(name, size, place=Place(place)).address


def fill(engine: kf.Engine, peers: dict[str, kf.Channel], name: str, seed: int) -> None:
    region = engine.regions[name]
    region.store(pattern(seed, region.length).tobytes())


def digest(
    engine: kf.Engine, peers: dict[str, kf.Channel], name: str, start: int, length: int
) -> int:
    return zlib.crc32(engine.regions[name].load(length, start))


def borrow(
    engine: kf.Engine, peers: dict[str, kf.Channel], name: str, of: str, start: int, length: int
) -> int:
    """A part of what torch_npu's allocator would give; `of` names what is to be given back."""
    address = allocated[of] = allocator().kvferry_malloc(SIZE_OF_TORCH, 0, None)
    return engine.register(name, kf.DeviceMemory(address + start, length)).address


def give_back(engine: kf.Engine, peers: dict[str, kf.Channel], of: str) -> None:
    allocator().kvferry_free(allocated.pop(of), SIZE_OF_TORCH, 0, None)


def unregister(engine: kf.Engine, peers: dict[str, kf.Channel], name: str) -> None:
    engine.unregister(engine.regions[name])


def connect(
    engine: kf.Engine, peers: dict[str, kf.Channel], address: str, path: str, more: dict[str, Any]
) -> dict[str, Any]:
    peer = peers["peer"] = engine.connect(address, path=path, timeout=10, **more)
    return {
        "path": str(peer.path),
        "foreign": str(peer.foreign_path),
        "rejected": dict(peer.rejected),
        "regions": sorted(peer.regions),
    }


def move(
    engine: kf.Engine,
    peers: dict[str, kf.Channel],
    op: str,
    here: str,
    there: str,
    ours: list[int],
    theirs: list[int],
    timeout: float = 10.0,
) -> dict[str, Any]:
    """Blocks of a region of this engine to those of the peer's, or back; what the report says."""
    peer = peers["peer"]
    batch = kf.Batch.blocks(engine.regions[here], ours, peer.regions[there], theirs, BLOCK)
    report = peer.write(batch, timeout) if op == "write" else peer.read(batch, timeout)
    return {
        "path": str(report.path),
        "bytes": report.bytes,
        "staged": report.staged_bytes,
        "submissions": report.stream_submissions,
        "inline": report.inline_copies,
    }


def leave(engine: kf.Engine, peers: dict[str, kf.Channel]) -> None:
    peers.pop("peer").close()


allocated: dict[str, int] = {}


def allocator() -> ctypes.CDLL:
    """The allocator of torch_npu's tensors, as torch_npu calls it."""
    library = ctypes.CDLL(str(library_path()))
    library.kvferry_malloc.restype = ctypes.c_void_p
    library.kvferry_malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    library.kvferry_free.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_void_p,
    ]
    return library


VERBS: dict[str, Callable[..., Any]] = {
    "allocate": allocate,
    "fill": fill,
    "digest": digest,
    "borrow": borrow,
    "give_back": give_back,
    "unregister": unregister,
    "connect": connect,
    "move": move,
    "leave": leave,
}

__all__ = ["BLOCK", "EMPTY", "options", "pattern", "refused", "serve"]
