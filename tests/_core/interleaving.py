"""Walks every order in which a few threads may touch shared words, on machines that reorder that.

A thread is a row of steps, each a load or a store of one word. A step may be carried out before one
that stands above it, where the machine allows:

    TSO      a load before an earlier store: what store buffers of x86 do
    RELAXED  any two accesses that nothing keeps in order: what arm64 does, buffers included

On both, kept in order are: accesses of one word; what a step needs to have been loaded; all behind
an acquire; all before a release; two that are seq_cst. Whatever is carried out, all see at once.
Loads are carried out ahead of conditions, stores are not: what a condition looks at, a store needs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["Ending", "Machine", "Order", "Step", "endings"]

Registers = Mapping[str, int]


class Order(enum.Enum):
    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    SEQ_CST = "seq_cst"


class Machine(enum.Enum):
    TSO = "tso"
    RELAXED = "relaxed"


@dataclass(frozen=True)
class Step:
    """A load fills the register of its name; a store writes `value`, `when` what it needs allows.

    The word is `place`, followed by the value of register `at` if there is one.
    """

    name: str
    place: str
    order: Order = Order.RELAXED
    value: int | Callable[[Registers], int] | None = None
    at: str | None = None
    needs: tuple[str, ...] = ()
    when: Callable[[Registers], bool] = lambda registers: True

    @property
    def is_load(self) -> bool:
        return self.value is None

    @property
    def acquires(self) -> bool:
        return self.is_load and self.order in (Order.ACQUIRE, Order.SEQ_CST)

    @property
    def releases(self) -> bool:
        return not self.is_load and self.order in (Order.RELEASE, Order.SEQ_CST)


def stays_behind(later: Step, earlier: Step, machine: Machine) -> bool:
    """Must `later` wait for `earlier`, of the same thread?"""
    if machine is Machine.TSO and (earlier.is_load or not later.is_load):
        return True
    return (
        earlier.acquires
        or later.releases
        or earlier.order is later.order is Order.SEQ_CST
        or earlier.place == later.place
        or earlier.name in later.needs
        or earlier.name == later.at
    )


@dataclass(frozen=True)
class Ending:
    """How a run came out: the words, what each thread loaded, and who died on the way."""

    memory: Registers
    registers: Mapping[str, Registers]
    dead: frozenset[str]


@dataclass(frozen=True)
class _State:
    memory: tuple[tuple[str, int], ...]
    done: tuple[frozenset[int], ...]
    registers: tuple[tuple[tuple[str, int], ...], ...]
    dead: frozenset[int]


def endings(
    threads: Mapping[str, tuple[Step, ...]],
    memory: Mapping[str, int],
    machine: Machine,
    mortal: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Ending]:
    """Each way it can end, once. `mortal` threads may die at any point, which sets a word."""
    names, programs = list(threads), list(threads.values())
    waits = [_waits(program, machine) for program in programs]
    start = _State(
        _frozen(memory), tuple(frozenset[int]() for _ in names), ((),) * len(names), frozenset()
    )
    seen, todo = {start}, [start]
    while todo:
        state = todo.pop()
        ready = _ready(state, programs, waits)
        following = [_carried_out(state, t, programs[t][s], s) for t, s in ready]
        for t, name in enumerate(names):
            if name in mortal and t not in state.dead and len(state.done[t]) < len(programs[t]):
                following.append(_died(state, t, mortal[name]))
        if not ready:
            registers = {name: dict(state.registers[t]) for t, name in enumerate(names)}
            yield Ending(dict(state.memory), registers, frozenset(names[t] for t in state.dead))
        fresh = set(following) - seen
        seen |= fresh
        todo += fresh


def _waits(program: tuple[Step, ...], machine: Machine) -> list[frozenset[int]]:
    """For each step, those above it that it waits for."""
    return [
        frozenset(i for i in range(j) if stays_behind(later, program[i], machine))
        for j, later in enumerate(program)
    ]


def _ready(
    state: _State, programs: list[tuple[Step, ...]], waits: list[list[frozenset[int]]]
) -> list[tuple[int, int]]:
    return [
        (t, s)
        for t, program in enumerate(programs)
        if t not in state.dead
        for s in range(len(program))
        if s not in state.done[t] and waits[t][s] <= state.done[t]
    ]


def _carried_out(state: _State, t: int, step: Step, s: int) -> _State:
    memory, registers = dict(state.memory), dict(state.registers[t])
    place = step.place if step.at is None else f"{step.place}{registers[step.at]}"
    if step.value is None:
        registers[step.name] = memory[place]
    elif step.when(registers):
        memory[place] = step.value(registers) if callable(step.value) else step.value
    return _State(
        _frozen(memory),
        _replaced(state.done, t, state.done[t] | {s}),
        _replaced(state.registers, t, _frozen(registers)),
        state.dead,
    )


def _died(state: _State, t: int, word: str) -> _State:
    memory = _frozen({**dict(state.memory), word: 1})
    return _State(memory, state.done, state.registers, state.dead | {t})


def _frozen(words: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(words.items()))


def _replaced(row: tuple, t: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*row[:t], value, *row[t + 1 :])
