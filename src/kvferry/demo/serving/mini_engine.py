"""A small inference engine: blocks, continuous batching, load or compute.

    add        a request waits
    step       1. those that wait get blocks, and what the own blocks or the store have of them;
                  a long rest is asked of another worker, if there is one
               2. each running one gets a share of the step: one token, or a chunk of its prompt
               3. one pass of the model over all of them
               4. tokens are told; who is done leaves its blocks, and its prefix to the store
    arrived    another worker has written the rest
    alone      it will not

One thread; what it finds out it says, as messages.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy as np

from ...errors import Error, NotQuiet, UsageError
from ...paged.ids import blocks_for
from ..model import Llama
from .attending import Part, attending
from .housing import Housing
from .messages import Finished, Given, Pushed, Said, Unpushed, Wanted
from .pages import Array, Pages
from .prefixes import Prefixes
from .schedule import shares
from .sequence import Sequence, State

__all__ = ["MiniEngine"]


class MiniEngine:
    """chunk   tokens of a step, at most
    say     is told what happens
    clock   in seconds
    """

    def __init__(
        self,
        model: Llama,
        pages: Pages,
        prefixes: Prefixes,
        say: Callable[[Said], None],
        *,
        chunk: int = 512,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._housing = Housing(pages, prefixes, clock)
        self.manager = self._housing.manager
        self._model, self._pages = model, pages
        self._say, self._chunk, self._clock = say, chunk, clock
        self._waiting: deque[Sequence] = deque()
        self._arriving: dict[str, Sequence] = {}
        self._running: list[Sequence] = []

    # ---- what happens to requests ----

    def add(self, sequence: Sequence) -> None:
        """Raises UsageError (tokens) for one that can never be served whole, or has tokens that the
        model does not know, (name) for that of another one that is not done."""
        self._check(sequence)
        if not sequence.most:
            sequence.move("end")
            self._say(Finished(sequence.name, sequence.account))
            return
        self._waiting.append(sequence)

    def arrived(self, name: str, token: int) -> None:
        """All KV of its prompt is in its blocks, and this token follows. Nothing, if it goes on
        alone by now: who said this may have been told that it was not heard."""
        sequence = self._arriving.pop(name, None)
        if sequence is not None:
            sequence.move("arrived")
            self._housing.take(sequence, sequence.left)
            self._running.append(sequence)
            self._give(sequence, token)

    def alone(self, name: str) -> None:
        """Nobody writes to its blocks: what is missing is computed here. Nothing, if it arrived."""
        sequence = self._arriving.pop(name, None)
        if sequence is not None:
            sequence.move("alone")
            self._running.append(sequence)

    def forget(self) -> bool:
        """Nothing is found in the own blocks any more. False: somebody uses them."""
        return self.manager.reset_prefix_cache()

    def _check(self, sequence: Sequence) -> None:
        request, config = sequence.request, self._model.config
        longest = len(request) + sequence.most
        limit = min((self._pages.blocks - 1) * self.manager.block_tokens, config.context)
        if sequence.most < 0:
            raise UsageError(f"{sequence.most} tokens to come", cause="tokens")
        if longest > limit:
            raise UsageError(f"{longest} tokens with the answer, of {limit}", cause="tokens")
        if (unknown := int(request.tokens.max())) >= config.vocabulary:
            raise UsageError(f"token {unknown}, of {config.vocabulary}", cause="tokens")
        others = [*self._waiting, *self._arriving.values(), *self._running]
        if any(sequence.name == other.name for other in others):
            raise UsageError(f"another request {sequence.name!r} is not done", cause="name")

    # ---- a step ----

    def step(self) -> bool:
        """False: there is nothing to do before something else happens."""
        self._admit()
        parts = self._parts()
        if not parts:
            return False
        begin = self._clock()
        logits = self._compute(parts)
        self._charge(parts, self._clock() - begin)
        complete = [sequence for sequence, _ in parts if not sequence.left]
        for sequence, row in zip(complete, logits, strict=True):
            self._give(sequence, int(np.argmax(row)))
        return True

    def _admit(self) -> None:
        while self._waiting and self._begin(self._waiting[0]):
            self._waiting.popleft()

    def _parts(self) -> list[tuple[Sequence, Part]]:
        """Of this step, with room for each. Who comes later yields to who came earlier."""
        given = shares([sequence.left for sequence in self._running], self._chunk)
        parts, row = [], 0
        for sequence, count in list(zip(self._running, given, strict=True)):
            if count and sequence.state is State.RUNNING and self._room(sequence, count):
                parts.append((sequence, self._part(sequence, count, row)))
                row += count
        return parts

    def _part(self, sequence: Sequence, count: int, row: int) -> Part:
        stop = sequence.request.computed
        table = self._housing.table(sequence)
        blocks = table.blocks[: blocks_for(stop, table.block_tokens)].copy()
        slots = table.slots(stop - count, stop)
        return Part(slice(row, row + count), stop - count, stop, blocks, slots)

    def _compute(self, parts: list[tuple[Sequence, Part]]) -> Array:
        """Logits of those whose tokens all have KV then."""
        tokens = [sequence.request.tokens[part.start : part.stop] for sequence, part in parts]
        positions = [np.arange(part.start, part.stop) for _, part in parts]
        last = [part.rows.stop - 1 for sequence, part in parts if not sequence.left]

        def written(layer: int) -> None:
            for sequence, part in parts:
                if sequence.push is not None:
                    sequence.push.written(layer, part.blocks, part.stop)

        attend = attending(self._pages, [part for _, part in parts], written)
        return self._model.forward(np.concatenate(tokens), np.concatenate(positions), attend, last)

    def _charge(self, parts: list[tuple[Sequence, Part]], seconds: float) -> None:
        self._housing.costs.computed(parts[-1][1].rows.stop, seconds)
        for sequence, part in parts:
            sequence.account.computed += part.stop - part.start

    # ---- blocks ----

    def _begin(self, sequence: Sequence) -> bool:
        """False: there is no room for it yet."""
        move = self._housing.house(sequence, self._running)
        if move is None:
            return False
        sequence.move(move)
        if sequence.state is State.RUNNING:
            self._running.append(sequence)
        else:
            self._ask(sequence)
        return True

    def _ask(self, sequence: Sequence) -> None:
        sequence.helped = False
        self._arriving[sequence.name] = sequence
        blocks = self._housing.table(sequence).blocks
        self._say(Wanted(sequence.name, sequence.request.computed, blocks.tolist()))

    def _room(self, sequence: Sequence, count: int) -> bool:
        """Make some: the last that came leave their blocks. False: it had to leave itself."""
        while not self._housing.take(sequence, count):
            last = self._running.pop()
            last.move("preempt")
            self._housing.evict(last)
            self._waiting.appendleft(last)
            if last is sequence:
                return False
        return True

    # ---- tokens ----

    def _give(self, sequence: Sequence, token: int) -> None:
        if sequence.push is not None:
            self._hand_over(sequence, token)
            self._end(sequence)
            return
        if token not in sequence.stops:
            sequence.request.append([token])
            sequence.given += 1
            self._say(Given(sequence.name, token))
        if token in sequence.stops or sequence.given == sequence.most:
            self._end(sequence)
            self._say(Finished(sequence.name, sequence.account))

    def _hand_over(self, sequence: Sequence, token: int) -> None:
        assert sequence.push is not None
        push = sequence.push
        try:
            hops = push.finish(sequence.name, token)
        except NotQuiet:
            raise
        except Error as error:
            self._say(Unpushed(sequence.name, str(error)))
            return
        self._say(Pushed(sequence.name, push.since, hops, sequence.account))

    def _end(self, sequence: Sequence) -> None:
        sequence.move("end")
        self._running.remove(sequence)
        self._housing.leave(sequence)
