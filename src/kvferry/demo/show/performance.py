"""A script played from the first process to the last: node, workers, and what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from ..serving import Setting, open_cluster, open_node
from .beside import node_troubles, open_page, read_so_far
from .scenes import Played, play
from .script import BLOCK_TOKENS, Script
from .stage import Stage
from .summary import Summary, summary_of

__all__ = ["Performance", "perform"]


class Performance(NamedTuple):
    played: Played
    summary: Summary


@contextmanager
def perform(model: Path, script: Script, stage: Stage, *, page: bool) -> Iterator[Performance]:
    """It is over when the block is entered; the node and the workers end when it is left.

    Raises PeerError when they cannot begin, or serving cannot go on.
    """
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    with ExitStack() as stack:
        stack.callback(stage.quiet)
        node = stack.enter_context(open_node(str(script.store_bytes), page=page))
        stage.fact("store", f"a node of its own; in another terminal: kvferry top {node.address}")
        if node.page:
            stage.fact("live page", node.page)
            open_page(node.page)
        begin = time.monotonic()
        stage.waiting("both workers to load the model")
        setting = Setting(model, node.address, script.blocks, BLOCK_TOKENS, threads=threads)
        cluster = stack.enter_context(open_cluster(setting))
        stage.quiet()
        seconds = time.monotonic() - begin
        stage.fact("workers", f"one prefills, one decodes; ready after {seconds:.1f} s")
        played = play(cluster, script, stage, lambda: read_so_far(node.address))
        troubles = [f"the {name} worker ended on the way" for name in sorted(cluster.gone)]
        troubles = [*node_troubles(node), *troubles, *cluster.troubles]
        yield Performance(played, summary_of(played, BLOCK_TOKENS, threads, troubles))
