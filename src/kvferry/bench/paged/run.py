"""A whole run of both measurements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from ..machine import read_machine
from ..peers.process import Process, code_of, start_process
from ..result import describe
from ..session import open_session, pool
from .asked import Vllm
from .blocks import BlocksRow, measure_blocks
from .pages import PagesRow, measure_pages

__all__ = ["PagedResult", "measure_paged"]

WORKER = code_of("kvferry.bench.paged.vllm")


class PagedResult(msgspec.Struct, frozen=True):
    """A whole run; peer: which vLLM was beside, if one was."""

    machine: dict[str, Any]
    peer: str | None
    blocks: list[BlocksRow]
    pages: list[PagesRow]

    @property
    def verified(self) -> bool:
        return all(r.verified for r in self.blocks) and all(r.verified for r in self.pages)


def measure_paged(size: int, seconds: float, peer: Vllm | None) -> PagedResult:
    """With `size` bytes a side. Blocks for about `seconds` a row of pages, and as long for all
    steps of blocks. Raises UsageError where vLLM is not installed, PeerError when it fails."""
    with _beside(peer) as process:
        named = None if process is None else f"vLLM {process.hear(str)}"
        blocks = measure_blocks(seconds, process)
    with open_session(size) as session:
        pages = list(measure_pages(session, seconds))
        machine = describe(read_machine(), pool(session))
    return PagedResult(machine, named, blocks, pages)


@contextmanager
def _beside(peer: Vllm | None) -> Iterator[Process | None]:
    if peer is None:
        yield None
        return
    with start_process(peer, "block manager", WORKER) as process:
        yield process
