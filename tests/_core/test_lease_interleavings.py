"""Every interleaving of a lease in shared memory with a node that evicts, with the memory orders
the headers have.

One entry, which holds key 7 as generation 1; the node lets it leave unless it is leased, and then
inserts key 7 anew, as generation 2, or key 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests._core.interleaving import Ending, Machine, Order, Step, endings
from tests._core.test_interleavings import (
    KEY,
    NEW,
    OLD,
    OTHER_KEY,
    WEAKER,
    Orders,
    Program,
    stands,
    tag,
    written,
)

UNTIL = 5  # later than the node's now

ACCESSES = {
    "raise": ("leases.h", "kvf_lease_exchange"),
    "sweeping": ("leases.h", "kvf_sweeping"),
    "recheck": ("index.h", "kvf_index_recheck"),
    "begin": ("leases.h", "kvf_sweep_begin"),
    "look": ("leases.h", "kvf_lease_word"),
    "mark": ("verbs.h", "kvf_index_mark"),
    "end": ("leases.h", "kvf_sweep_end"),
    "field": ("index.h", "kvf_load"),
    "set": ("index.h", "kvf_store"),
}
ORDERS = {access: written(*where) for access, where in ACCESSES.items()}


def user(orders: Orders) -> Program:
    """kvf_lease_one. That it raises the word is one store: the node alone lowers it."""
    probed = ("tag", "key")
    return (
        Step("tag", "tag", orders["field"]),
        Step("key", "key", orders["field"]),
        Step("raise", "until", orders["raise"], UNTIL, None, probed, stands),
        Step("sweeping", "sweeping", orders["sweeping"]),
        Step("again", "tag", orders["recheck"]),
    )


def node(orders: Orders, new_key: int = KEY) -> Program:
    """A sweep that finds the object leased or not, and what comes in its place."""

    def leaves(loaded: Mapping[str, int]) -> bool:
        return loaded["look"] == 0

    def then(name: str, place: str, value: int, order: Order = orders["set"]) -> Step:
        return Step(name, place, order, value, needs=("look",), when=leaves)

    return (
        Step("begin", "sweeping", orders["begin"], 1),
        Step("look", "until", orders["look"]),
        then("clear", "until", 0, Order.RELAXED),
        then("mark", "tag", tag(OLD) | 1, orders["mark"]),
        Step("end", "sweeping", orders["end"], 0, needs=("look",)),
        then("remove", "tag", 0),
        then("new key", "key", new_key),
        then("insert", "tag", tag(NEW)),
    )


def leased(ending: Ending) -> int | None:
    """The generation that the user has surely leased."""
    loaded = ending.registers["user"]
    sure = stands(loaded) and not loaded["sweeping"] and loaded["again"] == loaded["tag"]
    return loaded["tag"] >> 1 if sure else None


def broken(ending: Ending) -> bool:
    """It is leased, and left; or what is there instead is, and the word does not say so."""
    generation = leased(ending)
    left = ending.registers["node"]["look"] == 0
    return generation is not None and (
        ending.memory["until"] != UNTIL or (generation == OLD and left)
    )


def runs(orders: Orders, machine: Machine, new_key: int = KEY) -> Iterator[Ending]:
    start = {"tag": tag(OLD), "key": KEY, "until": 0, "sweeping": 0}
    return endings({"user": user(orders), "node": node(orders, new_key)}, start, machine)


@pytest.mark.parametrize("machine", Machine)
def test_what_is_leased_stays(machine: Machine) -> None:
    found = list(runs(ORDERS, machine))
    assert {leased(ending) for ending in found} == {None, OLD, NEW}
    assert not any(broken(ending) for ending in found)


@pytest.mark.parametrize("machine", Machine)
def test_another_key_in_its_place_is_not_what_was_leased(machine: Machine) -> None:
    found = list(runs(ORDERS, machine, OTHER_KEY))
    assert {leased(ending) for ending in found} == {None, OLD}
    assert not any(broken(ending) for ending in found)


def test_a_word_that_was_raised_late_keeps_what_came_instead() -> None:
    """Longer than anybody wanted: the one thing that goes wrong."""
    found = runs(ORDERS, Machine.RELAXED, OTHER_KEY)
    late = [e for e in found if e.registers["node"]["look"] == 0 and e.memory["until"] == UNTIL]
    assert late
    assert {leased(ending) for ending in late} == {None}


WEAKER_SEQ_CST = {
    "raise": Order.RELEASE,
    "sweeping": Order.ACQUIRE,
    "begin": Order.RELEASE,
    "look": Order.ACQUIRE,
}


@pytest.mark.parametrize("access", [*WEAKER_SEQ_CST, "end"])
def test_no_access_could_be_weaker(access: str) -> None:
    weaker = WEAKER_SEQ_CST.get(access) or WEAKER[ORDERS[access]]
    assert any(broken(ending) for ending in runs({**ORDERS, access: weaker}, Machine.RELAXED))


@pytest.mark.parametrize("access", ["raise", "begin"])
def test_store_buffers_alone_break_weaker_stores(access: str) -> None:
    weaker = {**ORDERS, access: Order.RELEASE}
    assert any(broken(ending) for ending in runs(weaker, Machine.TSO))
