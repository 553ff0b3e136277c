"""Any course of events against a manager, beside a simple model of it: lists of numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvferry.paged import NULL, BlockManager, BlockRemoved, BlockStored, PrefixHash, Request

BLOCKS, SIZE = 12, 3
WORDS = st.lists(st.integers(0, 1), min_size=1, max_size=14)

Prefix = tuple[int, ...]


@dataclass
class Held:
    """offered  how many blocks others may find"""

    request: Request
    blocks: list[int] = field(default_factory=list)
    offered: int = 0


class ManagerModel(RuleBasedStateMachine):
    """line   free blocks, the next one first
    names  block -> the prefix by which it is found
    kv     (block, offset) -> the prefix whose KV was written there last
    """

    def __init__(self) -> None:
        super().__init__()
        self.manager = BlockManager(1 + BLOCKS, PrefixHash(SIZE), events=True)
        self.line = list(range(1, 1 + BLOCKS))
        self.names: dict[int, Prefix] = {}
        self.age: dict[int, int] = {}
        self.kv: dict[tuple[int, int], Prefix] = {}
        self.held: dict[str, Held] = {}
        self.count = 0
        self.known: set[bytes] = set()

    # ---- the model ----

    def find(self, tokens: Prefix) -> list[int]:
        found = []
        for end in range(SIZE, len(tokens), SIZE):
            twins = [block for block, name in self.names.items() if name == tokens[:end]]
            if not twins:
                break
            found.append(min(twins, key=self.age.__getitem__))
        return found

    def uses(self, block: int) -> int:
        return sum(held.blocks.count(block) for held in self.held.values())

    def pop(self, count: int) -> list[int]:
        taken, self.line = self.line[:count], self.line[count:]
        for block in taken:
            self.names.pop(block, None)
        return taken

    def release(self, blocks: list[int]) -> None:
        """They are in no table any more that is about to be changed."""
        for block in reversed(blocks):
            if block != NULL and not self.uses(block):
                self.line.append(block)

    def offer(self, held: Held, tokens: int) -> None:
        for place in range(held.offered, tokens // SIZE):
            name = tuple(held.request.tokens[: (place + 1) * SIZE].tolist())
            self.count += 1
            if held.blocks[place] != NULL and self.names.get(held.blocks[place]) != name:
                self.names[held.blocks[place]] = name
                self.age[held.blocks[place]] = self.count
            held.offered = place + 1

    def write(self, held: Held, start: int, stop: int) -> None:
        for token in range(start, stop):
            place = (held.blocks[token // SIZE], token % SIZE)
            self.kv[place] = tuple(held.request.tokens[: token + 1].tolist())

    # ---- what happens ----

    def one(self, data: st.DataObject) -> Held:
        return self.held[data.draw(st.sampled_from(sorted(self.held)))]

    @rule(tokens=WORDS, delayed=st.booleans())
    def begin(self, tokens: list[int], delayed: bool) -> None:
        self.count += 1
        request = self.manager.request(str(self.count), tokens)
        hit = self.manager.get_computed_blocks(request)
        blocks = self.find(tuple(tokens))
        assert hit.blocks.tolist() == blocks
        needed = -(-len(tokens) // SIZE) - len(blocks)
        room = len([block for block in self.line if block not in blocks]) >= needed
        allocated = self.manager.allocate_slots(
            request, len(tokens) - hit.tokens, hit=hit, delay_cache=delayed
        )
        assert (allocated is not None) == room
        if allocated is None:
            return
        self.line = [block for block in self.line if block not in blocks]
        fresh = self.pop(needed)
        assert allocated.blocks.tolist() == fresh
        held = self.held[request.name] = Held(request, blocks + fresh, len(blocks))
        self.write(held, hit.tokens, len(tokens))
        if not delayed:
            self.offer(held, len(tokens))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), tokens=WORDS, lookahead=st.integers(0, 4))
    def go_on(self, data: st.DataObject, tokens: list[int], lookahead: int) -> None:
        held = self.one(data)
        request, start = held.request, held.request.computed
        if len(request) == start:
            request.append(tokens)
        stop = len(request)
        end = -(-(stop + lookahead) // SIZE)
        places = range(start // SIZE, min(end, len(held.blocks)))
        shared = [place for place in places if self.uses(held.blocks[place]) > 1]
        missing = max(0, end - len(held.blocks))
        allocated = self.manager.allocate_slots(request, stop - start, lookahead=lookahead)
        assert (allocated is not None) == (len(shared) + missing <= len(self.line))
        if allocated is None:
            return
        before = [held.blocks[place] for place in shared]
        for place, block in zip(shared, self.pop(len(shared)), strict=True):
            source = held.blocks[place]
            held.blocks[place] = block
            for offset in range(SIZE):
                if (source, offset) in self.kv:
                    self.kv[block, offset] = self.kv[source, offset]
        self.release(before)
        assert allocated.copies.sources.tolist() == before
        assert allocated.copies.targets.tolist() == [held.blocks[place] for place in shared]
        held.blocks += self.pop(missing)
        self.write(held, start, stop)
        self.offer(held, stop)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        held = self.one(data)
        self.count += 1
        twin = self.manager.fork(held.request, str(self.count))
        self.held[twin.name] = Held(twin, list(held.blocks), held.offered)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        held = self.one(data)
        tokens = data.draw(st.integers(0, held.request.computed))
        self.manager.cache_blocks(held.request, tokens)
        self.offer(held, tokens)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        held = self.one(data)
        least = held.blocks.count(NULL) * SIZE  # of what was let go nothing can be written
        tokens = data.draw(st.integers(least, held.request.computed))
        lost = set(held.blocks[tokens // SIZE :])
        others = [name for name, each in self.held.items() if each is not held]
        shared = [name for name in others if lost & set(self.held[name].blocks) - {NULL}]
        assert self.manager.rewind(held.request, tokens) == shared
        for block in lost:
            self.names.pop(block, None)
        held.offered = min(held.offered, tokens // SIZE)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        held = self.one(data)
        tokens = data.draw(st.integers(0, held.request.computed))
        self.manager.table(held.request).let_go(tokens)
        gone = held.blocks[: tokens // SIZE]
        held.blocks[: tokens // SIZE] = [NULL] * len(gone)
        self.release(gone)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), preempted=st.booleans())
    def end(self, data: st.DataObject, preempted: bool) -> None:
        held = self.held.pop(data.draw(st.sampled_from(sorted(self.held))))
        (self.manager.preempt if preempted else self.manager.free)(held.request)
        self.release(held.blocks)

    @rule()
    def reset(self) -> None:
        unused = len(self.line) == BLOCKS
        assert self.manager.reset_prefix_cache() == unused
        if unused:
            self.names.clear()

    # ---- what holds at any time ----

    @invariant()
    def agrees(self) -> None:
        manager = self.manager
        assert manager.check_integrity() == []
        assert manager.pool.line().tolist() == self.line
        for held in self.held.values():
            assert manager.table(held.request).blocks.tolist() == held.blocks
        named = np.flatnonzero(manager.prefixes.holds(np.arange(1 + BLOCKS))).tolist()
        assert named == sorted(self.names)

    @invariant()
    def every_block_has_the_kv_of_its_name(self) -> None:
        for block, name in self.names.items():
            ends = range(len(name) - SIZE + 1, len(name) + 1)
            assert [self.kv[block, at] for at in range(SIZE)] == [name[:end] for end in ends]
        for held in self.held.values():
            tokens = tuple(held.request.tokens.tolist())
            for token in range(held.blocks.count(NULL) * SIZE, held.request.computed):
                place = (held.blocks[token // SIZE], token % SIZE)
                assert self.kv[place] == tokens[: token + 1]

    @invariant()
    def who_follows_the_events_knows_what_is_found(self) -> None:
        for event in self.manager.take_events():
            if isinstance(event, BlockStored):
                self.known |= set(event.block_hashes)
            elif isinstance(event, BlockRemoved):
                assert set(event.block_hashes) <= self.known
                self.known -= set(event.block_hashes)
            else:
                self.known.clear()
        hashes = self.manager.prefixes.hashes_of(np.array(sorted(self.names), np.int64))
        assert self.known == set(hashes)


class TestManager(ManagerModel.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=15, stateful_step_count=25, deadline=None)


@pytest.mark.slow
class TestManagerForLong(ManagerModel.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
