"""A second process reads through shared memory, while the first evicts."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

from kvferry import _core
from kvferry.testing import Child, Parent
from tests._core.tables import Memory, digests, mapped, memory_file, put, slots, words

Spawn = Callable[..., Child]

PLACES, KEYS, SIZE = 6, 10, 3000


def content(key: int, generation: int) -> bytes:
    return f"{key:4d} {generation:10d} ".encode() * (SIZE // 16) + bytes(generation % 11)


def key_of(generation: int) -> int:
    return generation * 7 % KEYS


def over_files(fds: list[int], writable: bool) -> Memory:
    return Memory(mapped(fds[0], writable), mapped(fds[1], writable), mapped(fds[2]))


def read_along(parent: Parent, pid: int, numbers: list[int]) -> int:
    """Read until the parent says stop; then keep one view, check it when asked, and wait."""
    flags = [os.O_RDONLY, os.O_RDONLY, os.O_RDWR]
    fds = [os.open(f"/proc/{pid}/fd/{n}", flag) for n, flag in zip(numbers, flags, strict=True)]
    memory = over_files(fds, writable=False)
    reader = memory.reader(memory.users())
    keys, hits = [str(key) for key in range(KEYS)], 0
    outs = [bytearray(SIZE + 20) for _ in keys]
    over = threading.Event()
    listening = threading.Thread(target=lambda: (parent.hear(), over.set()))
    listening.start()
    parent.tell("ready")
    while not over.is_set():
        statuses, lengths = reader.get_all(keys, outs)
        for key in np.flatnonzero(statuses == _core.HIT).tolist():
            found = bytes(outs[key][: lengths[key]])
            assert found == content(key, int(found[5:15]))
            hits += 1
    listening.join()
    views = [reader.hold(key) for key in keys]
    view = next(view for view in views if view[0] == _core.HIT)
    for status, _, _, generation, line in views:
        if status == _core.HIT and line != view[4]:
            reader.let_go(line, generation)
    for _ in parent:
        start = view[1] - memory.pool.ctypes.data
        found = memory.pool[start : start + view[2]].tobytes()
        assert found == content(key_of(view[3]), view[3])
        parent.tell([view[3], hits])
    return 0


class Evictor:
    """Puts one object after the other where nobody holds what was there."""

    def __init__(self, memory: Memory) -> None:
        self.memory, self.index, self.lines = memory, memory.node(), memory.users()
        self.there: dict[int, tuple[int, int]] = {}  # place -> slot, generation
        self.marked: set[int] = set()
        self.generation = 0

    def vacate(self, place: int) -> bool:
        slot, generation = self.there.get(place, (0, 0))
        if not generation:
            return True
        if place not in self.marked:
            assert self.index.mark(slots(slot), words(generation)).all()
            self.marked.add(place)
        if self.lines.held(words(generation)).any():
            return False
        assert self.index.remove(slots(slot), words(generation)).all()
        self.memory.pool[place * 4096 : (place + 1) * 4096] = 0xA5
        self.marked.discard(place)
        del self.there[place]
        return True

    def store(self, place: int) -> None:
        self.generation += 1
        key = key_of(self.generation)
        data = np.frombuffer(content(key, self.generation), np.uint8)
        self.memory.pool[place * 4096 :][: len(data)] = data
        (slot,) = put(self.index, digests(str(key)), self.generation, place * 4096, len(data))
        if slot >= 0:
            self.there[place] = slot, self.generation

    def step(self, place: int) -> None:
        if self.vacate(place):
            self.store(place)


@pytest.mark.parametrize("stores", [2000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_another_process_reads_what_is_evicted(spawn: Spawn, stores: int) -> None:
    sizes = _core.index_bytes(64), PLACES * 4096, _core.lines_bytes(16)
    fds = [memory_file(size) for size in sizes]
    evictor = Evictor(over_files(fds, writable=True))
    child = spawn(read_along, os.getpid(), fds)
    assert child.hear() == "ready"
    while evictor.generation < stores or (evictor.lines.counters()[0] < 100 and child.alive()):
        evictor.step(evictor.generation * 5 % PLACES)
        evictor.step(evictor.generation % PLACES)
    child.tell("stop")
    held, hits = child.ask("look")
    assert hits
    for at in range(20 * PLACES):
        evictor.step(at % PLACES)
    assert evictor.lines.held(words(held)).all()
    assert child.ask("look")[0] == held
    child.kill()
    # who died holds on: only its confirmed end lets go of it
    assert evictor.lines.claimed()["generation"].tolist() == [held]
    for fd in fds:
        os.close(fd)
