"""Every interleaving of read, lease, evict, reuse and death, with the headers' memory orders.

One entry, which holds key 7 as generation 1 in extent 0; the node evicts it, lets others write over
its extent, and inserts key 7 anew, as generation 2 in extent 1. A word of an extent says whose it
is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest

from tests._core.interleaving import Ending, Machine, Order, Step, endings
from tests.native.harness import HEADERS

Program = tuple[Step, ...]
Orders = Mapping[str, Order]

KEY, OTHER_KEY, OLD, NEW, GARBAGE = 7, 8, 1, 2, 99

# The access -> where its order is written.
ACCESSES = {
    "publish": ("lines.h", "kvf_publish"),
    "recheck": ("index.h", "kvf_index_recheck"),
    "mark": ("verbs.h", "kvf_index_mark"),
    "scan": ("lines.h", "kvf_scan_hazards"),
    "clear": ("lines.h", "kvf_clear"),
    "field": ("index.h", "kvf_load"),
    "set": ("index.h", "kvf_store"),
}


def written(header: str, function: str) -> Order:
    text = (HEADERS / header).read_text()
    found = re.search(rf"\b{function}\([^;{{]*\) \{{(.*?)^\}}", text, re.S | re.M)
    assert found is not None
    (order,) = set(re.findall(r"memory_order_(\w+)", found[1]))
    return Order(order)


ORDERS = {access: written(*where) for access, where in ACCESSES.items()}


def tag(generation: int) -> int:
    return generation << 1


def stands(loaded: Mapping[str, int]) -> bool:
    """Did the probe find the key?"""
    return loaded["tag"] in (tag(OLD), tag(NEW)) and loaded["key"] == KEY


def reader(line: str, orders: Orders) -> Program:
    """kvf_read_one. What it copied counts when the recheck finds the tag that was probed."""
    probed = ("tag", "key")
    return (
        Step("tag", "tag", orders["field"]),
        Step("key", "key", orders["field"]),
        Step("offset", "offset", orders["field"]),
        Step(
            "publish",
            line,
            orders["publish"],
            lambda loaded: loaded["tag"] >> 1,
            None,
            probed,
            stands,
        ),
        Step("again", "tag", orders["recheck"]),
        Step("first", "first", at="offset"),
        Step("second", "second", at="offset"),
        Step("clear", line, orders["clear"], 0, needs=(*probed, "again")),
    )


def evictor(orders: Orders, *lines: str, exits: bool = False, new_key: int = KEY) -> Program:
    """Mark, look at the lines twice, as often as it takes; then use extent and entry again."""
    looks = [Step(f"{turn} {line}", line, orders["scan"]) for turn in (1, 2) for line in lines]
    deaths = [Step(f"exit {line}", f"exit {line}", Order.ACQUIRE) for line in lines if exits]
    needs = tuple(step.name for step in (*looks, *deaths))

    def free(loaded: Mapping[str, int]) -> bool:
        return any(
            all(loaded[f"{turn} {line}"] != OLD or loaded.get(f"exit {line}") for line in lines)
            for turn in (1, 2)
        )

    def then(name: str, place: str, value: int, order: Order = orders["set"]) -> Step:
        return Step(name, place, order, value, needs=needs, when=free)

    return (
        Step("mark", "tag", orders["mark"], tag(OLD) | 1),
        *deaths,
        *looks,
        then("remove", "tag", 0),
        then("over first", "first0", GARBAGE, Order.RELAXED),
        then("over second", "second0", GARBAGE, Order.RELAXED),
        then("new first", "first1", NEW, Order.RELAXED),
        then("new second", "second1", NEW, Order.RELAXED),
        then("new key", "key", new_key),
        then("new offset", "offset", 1),
        then("insert", "tag", tag(NEW)),
    )


def start(*lines: str) -> dict[str, int]:
    entry = {"tag": tag(OLD), "key": KEY, "offset": 0}
    pool = {"first0": OLD, "second0": OLD, "first1": GARBAGE, "second1": GARBAGE}
    return {**entry, **pool, **dict.fromkeys(lines, 0), **{f"exit {line}": 0 for line in lines}}


def answer(ending: Ending, line: str = "line") -> tuple[int, int, int] | None:
    """(generation, first word, second word) of a hit."""
    loaded = ending.registers[line]
    if line in ending.dead or not stands(loaded) or loaded["again"] != loaded["tag"]:
        return None
    return loaded["tag"] >> 1, loaded["first"], loaded["second"]


def answers(orders: Orders, machine: Machine) -> Iterator[tuple[int, int, int] | None]:
    threads = {"line": reader("line", orders), "node": evictor(orders, "line")}
    return (answer(ending) for ending in endings(threads, start("line"), machine))


RIGHT = {None, (OLD, OLD, OLD), (NEW, NEW, NEW)}


@pytest.mark.parametrize("machine", Machine)
def test_a_hit_is_of_one_stay(machine: Machine) -> None:
    assert set(answers(ORDERS, machine)) == RIGHT


WEAKER = {Order.RELEASE: Order.RELAXED, Order.ACQUIRE: Order.RELAXED}
WEAKER_SEQ_CST = {
    "publish": Order.RELEASE,
    "recheck": Order.ACQUIRE,
    "mark": Order.RELEASE,
    "scan": Order.ACQUIRE,
}


def test_the_headers_say_what_they_should() -> None:
    assert {access for access in ORDERS if ORDERS[access] is Order.SEQ_CST} == set(WEAKER_SEQ_CST)


@pytest.mark.parametrize("access", ACCESSES)
def test_no_access_could_be_weaker(access: str) -> None:
    weaker = WEAKER_SEQ_CST.get(access) or WEAKER[ORDERS[access]]
    orders = {**ORDERS, access: weaker}
    assert any(said not in RIGHT for said in answers(orders, Machine.RELAXED))


@pytest.mark.parametrize("access", ["publish", "mark"])
def test_store_buffers_alone_break_weaker_stores(access: str) -> None:
    weaker = {**ORDERS, access: Order.RELEASE}
    assert any(said not in RIGHT for said in answers(weaker, Machine.TSO))


def exists_wrongly(orders: Orders) -> bool:
    """Another key takes the entry: does it seem to stand there as the stay that left?"""
    asks = (
        Step("tag", "tag", orders["field"]),
        Step("key", "key", orders["field"]),
        Step("again", "tag", Order.RELAXED),
    )
    threads = {"user": asks, "node": evictor(orders, "line", new_key=OTHER_KEY)}
    found = (
        ending.registers["user"] for ending in endings(threads, start("line"), Machine.RELAXED)
    )
    return any(
        loaded["tag"] == loaded["again"] == tag(OLD) and loaded["key"] != KEY for loaded in found
    )


def test_what_exists_is_what_stands_there() -> None:
    assert not exists_wrongly(ORDERS)
    assert exists_wrongly({**ORDERS, "field": Order.RELAXED})


@pytest.mark.parametrize("machine", Machine)
def test_a_dead_readers_extent_is_used_again_once_its_end_is_known(machine: Machine) -> None:
    threads = {"line": reader("line", ORDERS), "node": evictor(ORDERS, "line", exits=True)}
    found = list(endings(threads, start("line"), machine, mortal={"line": "exit line"}))
    assert {answer(ending) for ending in found} == RIGHT
    died_holding = [e for e in found if e.dead and e.memory["line"] == OLD]
    assert {e.memory["first0"] for e in died_holding} == {OLD, GARBAGE}


def test_a_dead_readers_extent_waits_until_then() -> None:
    threads = {"line": reader("line", ORDERS), "node": evictor(ORDERS, "line")}
    found = endings(threads, start("line"), Machine.RELAXED, mortal={"line": "exit line"})
    for ending in found:
        seen = {ending.registers["node"][f"{turn} line"] for turn in (1, 2)}
        if seen == {OLD}:
            assert ending.memory["first0"] == OLD


def test_an_end_that_is_only_believed_is_not_enough() -> None:
    """A closed socket is no exit: its reader still copies."""
    threads = {
        "line": reader("line", ORDERS),
        "node": evictor(ORDERS, "line", exits=True),
        "socket": (Step("closes", "exit line", Order.RELEASE, 1),),
    }
    found = endings(threads, start("line"), Machine.TSO)
    assert {answer(ending) for ending in found} - RIGHT


@pytest.mark.slow
@pytest.mark.parametrize("machine", Machine)
def test_two_readers_and_a_death(machine: Machine) -> None:
    lines = ("line", "other")
    threads = {line: reader(line, ORDERS) for line in lines}
    threads["node"] = evictor(ORDERS, *lines, exits=True)
    found = endings(threads, start(*lines), machine, mortal={"line": "exit line"})
    assert {answer(ending, line) for ending in found for line in lines} == RIGHT


def litmus(machine: Machine, *threads: Program) -> set[tuple[int, ...]]:
    named = {str(i): program for i, program in enumerate(threads)}
    return {
        tuple(
            ending.registers[name][register]
            for name in named
            for register in ending.registers[name]
        )
        for ending in endings(named, {"x": 0, "y": 0}, machine)
    }


def sides(store: Order, load: Order) -> tuple[Program, Program]:
    """Two threads that each store a word of their own and look at the other's."""
    one = (Step("s", "x", store, 1), Step("r", "y", load))
    return one, (Step("s", "y", store, 1), Step("r", "x", load))


@pytest.mark.parametrize("machine", Machine)
def test_machine_reorders_a_load_before_a_store(machine: Machine) -> None:
    assert (0, 0) in litmus(machine, *sides(Order.RELEASE, Order.ACQUIRE))
    assert (0, 0) not in litmus(machine, *sides(Order.SEQ_CST, Order.SEQ_CST))


@pytest.mark.parametrize("machine", Machine)
def test_machine_passes_messages(machine: Machine) -> None:
    def sent(store: Order, load: Order) -> set[tuple[int, ...]]:
        writes = (Step("data", "x", value=1), Step("flag", "y", store, 1))
        return litmus(machine, writes, (Step("flag", "y", load), Step("data", "x")))

    assert (0, 1) not in sent(Order.RELEASE, Order.ACQUIRE)
    weak = {
        (0, 1) in sent(Order.RELAXED, Order.ACQUIRE),
        (0, 1) in sent(Order.RELEASE, Order.RELAXED),
    }
    assert weak == {machine is Machine.RELAXED}
