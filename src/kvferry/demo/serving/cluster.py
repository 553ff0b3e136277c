"""The processes of a demo: a worker that prefills, one that decodes, and the store of the host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

import msgspec

from ...bench.launch import Process
from ...errors import PeerError
from .messages import Forget, Order, Said, Start
from .router import DECODE, PREFILL, Ask, Router, Turn

__all__ = ["Cluster", "Setting", "open_cluster"]

MODULE = "kvferry.demo.serving.worker"


class Setting(msgspec.Struct, frozen=True):
    """model   its file
    store   address of a node; None: there is none
    blocks  of KV memory of each worker, of so many tokens
    chunk   tokens that a worker computes in one step
    threads of each worker's matrix products
    """

    model: Path
    store: str | None = None
    blocks: int = 256
    block_tokens: int = 16
    chunk: int = 512
    threads: int = 1


class Cluster:
    """One thread at a time, but for what tells on_token."""

    def __init__(self, processes: dict[str, Process]) -> None:
        self.processes = processes
        self._inbox: SimpleQueue[tuple[str, Said | None]] = SimpleQueue()
        self._router = Router(self._post)
        self._threads = [threading.Thread(target=self._hear, args=(name,)) for name in processes]
        for thread in self._threads:
            thread.start()

    def begin(self, setting: Setting) -> None:
        """Block until both have the model. Raises PeerError."""
        order = Start(
            str(setting.model.resolve()),
            setting.store,
            setting.blocks,
            setting.block_tokens,
            setting.chunk,
        )
        for name in self.processes:
            self._post(name, order)
        while len(self._router.addresses) < len(self.processes):
            self._next()

    def serve(
        self, asks: Sequence[Ask], on_token: Callable[[Turn], None] = lambda _: None
    ) -> list[Turn]:
        """Serve all of them together; on_token is told each time one has got another token. Blocks.
        Raises PeerError when the worker that decodes is gone."""
        turns = [self._router.ask(ask, time.monotonic()) for ask in asks]
        return self.finish(turns, on_token)

    def plain(
        self, ask: Ask, on_token: Callable[[Turn], None] = lambda _: None, worker: str = PREFILL
    ) -> Turn:
        """The same as a worker does it that has no blocks, no store and no peer. Blocks."""
        return self.finish([self.begin_plain(ask, worker)], on_token)[0]

    def begin_plain(self, ask: Ask, worker: str = PREFILL) -> Turn:
        """Do not wait for it: `finish` does. The other one does it if this worker ends."""
        return self._router.plain(worker, ask, time.monotonic())

    def finish(
        self, turns: list[Turn], on_token: Callable[[Turn], None] = lambda _: None
    ) -> list[Turn]:
        """Block until all of these are done. on_token may begin others."""
        told = dict.fromkeys(map(id, turns), 0)
        while not all(turn.done for turn in turns):
            self._next()
            for turn in turns:
                if len(turn.given) > told[id(turn)]:
                    told[id(turn)] = len(turn.given)
                    on_token(turn)
        return turns

    @property
    def gone(self) -> frozenset[str]:
        """Workers that ended, as far as it was heard."""
        return frozenset(self._router.gone)

    @property
    def troubles(self) -> tuple[str, ...]:
        """What workers had to do without so far."""
        return tuple(self._router.troubles)

    def forget(self) -> None:
        """What workers have in their own blocks is found no more, unless they serve somebody by
        then; the store keeps its own."""
        for name in self.processes:
            self._post(name, Forget())

    def kill(self) -> None:
        """Do not wait until they have done what they are at; they are reaped by close."""
        for process in self.processes.values():
            process.kill()

    def close(self) -> None:
        with ExitStack() as stack:  # all of it, also when an interrupt comes between
            for thread in self._threads:
                stack.callback(thread.join)
            for process in self.processes.values():
                stack.callback(process.end)

    def _next(self) -> None:
        name, said = self._inbox.get()
        if said is None:
            self._router.ended(name)
        else:
            self._router.heard(name, said, time.monotonic())

    def _post(self, name: str, order: Order) -> None:
        self.processes[name].say(msgspec.json.encode(order))

    def _hear(self, name: str) -> None:
        process = self.processes[name]
        with suppress(PeerError):  # it ended
            try:
                while True:
                    self._inbox.put((name, msgspec.json.decode(process.hear(), type=Said)))
            except ValueError:  # a line that was cut off, or is none: it ends, if it has not
                process.kill()
        self._inbox.put((name, None))


@contextmanager
def open_cluster(setting: Setting) -> Iterator[Cluster]:
    """Both workers, with the model loaded; gone, and reaped, when the block is left."""
    with ExitStack() as stack:
        processes: dict[str, Process] = {}
        for name in (PREFILL, DECODE):
            processes[name] = Process(MODULE, name, [f"OPENBLAS_NUM_THREADS={setting.threads}"])
            stack.callback(processes[name].end)
        cluster = Cluster(processes)
        stack.callback(cluster.close)
        try:
            cluster.begin(setting)
            yield cluster
        except BaseException:
            cluster.kill()
            raise
