"""A worker process: ``python -m kvferry.demo.serving.worker``. A model, blocks, an engine.

Orders come by standard input and KV by the engine; what it has to say goes to standard output.
It ends with its input.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

import msgspec
import numpy as np

from ...bench.peers.answering import take_output
from ...engine import Channel, Engine
from ...errors import ClosedError, Error, Timeout
from ...store import Store
from ..model import Llama, generate, load_model
from .messages import (
    Alone,
    Arrived,
    Failed,
    Finished,
    Forget,
    Given,
    Order,
    Plain,
    Prefill,
    Ready,
    Said,
    Serve,
    Start,
    Troubled,
    Unpushed,
)
from .mini_engine import MiniEngine
from .pages import Pages, pages_of, record_of
from .prefixes import Prefixes
from .push import NOTIFICATION, Push
from .sequence import Sequence

__all__ = ["Worker", "main"]

ANYWHERE = "127.0.0.1:0"
PAUSE = 0.01  # seconds between two looks at who is still connected


class Worker:
    """Carries out orders, one after the other, in one thread."""

    def __init__(
        self, model: Llama, engine: Engine, start: Start, say: Callable[[Said], None]
    ) -> None:
        self._model, self._engine, self._say = model, engine, say
        record = record_of(model.config, model.revision, start.block_tokens)
        self._pages = Pages(engine, record, start.blocks)
        store = None if start.store is None else partial(Store, start.store)
        self.prefixes = Prefixes(store, self._pages.memory, tell=lambda why: say(Troubled(why)))
        self.mini = MiniEngine(model, self._pages, self.prefixes, say, chunk=start.chunk)

    def carry_out(self, order: Any) -> None:
        _CARRY_OUT[type(order)](self, order)

    def serve(self, order: Serve) -> None:
        try:
            self.mini.add(
                self._sequence(order.name, order.tokens, order.most, order.stops, order.helped)
            )
        except Error as error:
            self._say(Failed(order.name, str(error)))

    def prefill(self, order: Prefill) -> None:
        try:
            sequence = self._sequence(order.name, order.tokens, 1, [])
            sequence.push = self._push(order)
            self.mini.add(sequence)
        except Error as error:
            self._say(Unpushed(order.name, str(error)))

    def plain(self, order: Plain) -> None:
        try:
            stops = frozenset(order.stops)
            for token in generate(self._model, order.tokens, order.most, stops):
                self._say(Given(order.name, token))
        except Error as error:
            self._say(Failed(order.name, str(error)))
            return
        self._say(Finished(order.name, None))

    def arrived(self, order: Arrived) -> None:
        self.mini.arrived(order.name, order.token)

    def alone(self, order: Alone) -> None:
        while order.gone and self._engine.callers:  # what it sent may still land
            time.sleep(PAUSE)
        self.mini.alone(order.name)

    def forget(self, order: Forget) -> None:
        self.mini.forget()

    def _sequence(
        self, name: str, tokens: list[int], most: int, stops: list[int], helped: bool = False
    ) -> Sequence:
        return Sequence(self.mini.manager.request(name, tokens), most, frozenset(stops), helped)

    def _push(self, order: Prefill) -> Push:
        peer = self._engine.connect(order.to)
        theirs, blocks = pages_of(peer), np.array(order.blocks, np.int64)
        ours, prompt = self._pages.memory, len(order.tokens)
        again = partial(self._connect_again, order.to)
        return Push(peer, ours, theirs, blocks, order.start, prompt, again)

    def _connect_again(self, address: str) -> Channel | None:
        """Over a wire that broke bytes may land until there is another one. None: nobody is there
        to whom that would matter; one that is stopped is waited for."""
        while True:
            try:
                return self._engine.connect(address)
            except Timeout:
                continue
            except Error:
                return None


_CARRY_OUT: dict[type, Callable[[Worker, Any], None]] = {
    Serve: Worker.serve,
    Prefill: Worker.prefill,
    Plain: Worker.plain,
    Arrived: Worker.arrived,
    Alone: Worker.alone,
    Forget: Worker.forget,
}


def main() -> None:
    say = partial(_say, take_output())
    # not sys.stdin, whose lock an interpreter that ends waits for, while a thread reads
    lines = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115 - that thread's until then
    with suppress(BrokenPipeError):  # nobody hears it any more, so it ends
        try:
            _work(msgspec.json.decode(lines.readline(), type=Start), lines, say)
        except (Error, OSError, msgspec.DecodeError) as error:
            say(Failed(None, str(error)))


def _work(start: Start, lines: BinaryIO, say: Callable[[Said], None]) -> None:
    model = load_model(Path(start.model))
    inbox: SimpleQueue[Any] = SimpleQueue()
    with Engine(ANYWHERE) as engine:
        worker = Worker(model, engine, start, say)
        threading.Thread(target=_read_orders, args=(lines, inbox, say), daemon=True).start()
        notified = threading.Thread(target=_read_notifications, args=(engine, inbox))
        notified.start()
        say(Ready(engine.addresses[0]))
        try:
            _carry_out(worker, inbox)
        finally:
            worker.prefixes.close()
            engine.close()
            notified.join()


def _carry_out(worker: Worker, inbox: SimpleQueue[Any]) -> None:
    """Until there is no input any more."""
    busy = True
    while True:
        while not (busy and inbox.empty()):
            order = inbox.get()
            if order is None:
                return
            worker.carry_out(order)
            busy = True
        busy = worker.mini.step()


def _read_orders(lines: BinaryIO, inbox: SimpleQueue[Any], say: Callable[[Said], None]) -> None:
    try:
        for line in lines:
            inbox.put(msgspec.json.decode(line, type=Order))
    except msgspec.DecodeError as error:
        say(Failed(None, f"an order that is none: {error}"))
    finally:
        inbox.put(None)


def _read_notifications(engine: Engine, inbox: SimpleQueue[Any]) -> None:
    try:
        while True:
            for each in engine.notifications(timeout=None):
                with suppress(msgspec.DecodeError):  # of somebody else
                    if each.name == NOTIFICATION:
                        inbox.put(msgspec.json.decode(each.message, type=Arrived))
    except ClosedError:
        return


def _say(stream: BinaryIO, said: Said) -> None:
    stream.write(msgspec.json.encode(said) + b"\n")
    stream.flush()


if __name__ == "__main__":
    main()
