"""NIXL over UCX, without a progress thread: the initiator polls, the target polls now and then."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from .messages import Blocks
from .package import Ids, Package

__all__ = ["Nixl"]

MODULES = ("nixl", "nixl_cu12", "nixl_cu13")
# Every block of a side: where it begins in the side, in bytes, and how long it is.
Grid = tuple[tuple[int, int, int], ...]


class Nixl(Package):
    """All blocks of both sides are described once; a call picks some by their numbers."""

    install = "nixl-cu12"
    transport = "ucx"
    pause = 0.001

    def __init__(self, address: int, size: int) -> None:
        self._address = address
        self._peer = ""
        self._peer_address = 0
        self._grid: Grid = ()
        self._lists: list[Any] = []
        api = import_module(f"{_installed()}._api")
        config = api.nixl_agent_config(enable_prog_thread=False, backends=["UCX"])
        self._agent = api.nixl_agent(f"kvferry-bench-{os.getpid()}", config)
        self._agent.register_memory([(address, size, 0, "")], "DRAM")

    def card(self) -> bytes:
        return bytes(self._agent.get_agent_metadata())

    def meet(self, card: bytes, address: int) -> None:
        name = self._agent.add_remote_agent(card)
        self._peer = name.decode() if isinstance(name, bytes) else name
        self._peer_address = address

    def call(self, op: str, blocks: Sequence[Blocks]) -> Callable[[], None]:
        self._describe(tuple((each.base, each.block, each.total) for each in blocks))
        ours, theirs = self._lists
        firsts = np.cumsum([0, *(each.total for each in blocks[:-1])])
        local = _numbers(firsts, [each.ours for each in blocks])
        remote = _numbers(firsts, [each.theirs for each in blocks])
        return partial(_carry, self._agent, op.upper(), ours, local, theirs, remote)

    def attend(self) -> None:
        self._agent.get_new_notifs()

    def _describe(self, grid: Grid) -> None:
        if grid == self._grid:
            return
        for each in self._lists:
            self._agent.release_dlist_handle(each)
        ends = (("NIXL_INIT_AGENT", self._address), (self._peer, self._peer_address))
        self._lists = [
            self._agent.prep_xfer_dlist(name, _descriptors(at, grid), "DRAM") for name, at in ends
        ]
        self._grid = grid


def _installed() -> str:
    for name in MODULES:
        if find_spec(name) is not None:
            return name
    raise ImportError(f"no module named {', '.join(MODULES[:-1])} or {MODULES[-1]}")


def _descriptors(address: int, grid: Grid) -> Any:
    """A row for each block of a side: address, bytes, device."""
    rows = []
    for base, block, total in grid:
        starts = address + base + np.arange(total, dtype=np.uint64) * np.uint64(block)
        rows.append(np.stack([starts, np.full_like(starts, block), np.zeros_like(starts)], axis=1))
    return np.ascontiguousarray(np.concatenate(rows).astype(np.uint64))


def _numbers(firsts: Ids, ids: Sequence[Ids]) -> Any:
    return np.concatenate(
        [first + each for first, each in zip(firsts, ids, strict=True)],
        dtype=np.int32,
        casting="same_kind",
    )


def _carry(agent: Any, op: str, ours: Any, local: Any, theirs: Any, remote: Any) -> None:
    handle = agent.make_prepped_xfer(op, ours, local, theirs, remote)
    state = agent.transfer(handle)
    while state == "PROC":
        state = agent.check_xfer_state(handle)
    agent.release_xfer_handle(handle)
    if state != "DONE":
        raise RuntimeError(f"nixl says {state}")
