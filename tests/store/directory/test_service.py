"""What users find through a directory, while nodes and the directory die, stop and come back."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kvferry.store import Store
from tests.store.directory.town import SPANS, Town, town, until, value_of
from tests.store.settings import over_tcp

A, B = ([f"{name} {at}" for at in range(20)] for name in "ab")


@pytest.fixture
def place() -> Iterator[Town]:
    with town() as made:
        yield made


def test_what_is_found_while_nodes_die_and_come_back(place: Town) -> None:
    directory = place.directory()
    a, b = place.node(), place.node()
    directory.wait(alive=2, telling=0)
    assert a.put(*A) == [["STORED"] * 20, None]
    directory.wait(keys=20)
    assert b.get(*A, "never") == [True] * 20 + [False]
    assert b.count() == 0
    with Store(f"kv://{b.address}") as user:
        assert user.get("a 7") == value_of("a 7")
        assert user.exists_batch(["a 7", "b 7"]).tolist() == [True, False]
    with over_tcp(), Store(f"kv://{b.address}") as user:
        assert user.get_batch(["a 7", "b 7", "a 8"]) == [value_of("a 7"), None, value_of("a 8")]
    a.kill()
    directory.wait(suspect=1)
    assert b.get(*A) == [False] * 20  # named still, and not there
    directory.wait(suspect=0, alive=1, places=0, keys=0)
    assert b.get(*A) == [False] * 20
    a.start()  # at the same address, as another life
    directory.wait(alive=2, telling=0)
    assert b.get(*A) == [False] * 20
    assert a.put(*A[:5])[0] == ["STORED"] * 5
    directory.wait(keys=5)
    until(lambda: b.get(*A) == [True] * 5 + [False] * 15)  # it was alone, and did not ask
    assert b.put(*B[:3])[0] == ["STORED"] * 3
    directory.kill()
    assert b.get("b 1", "a 1") == [True, False]  # nobody is there to tell
    directory.start()
    directory.wait(alive=2, telling=0, keys=8)
    assert b.get(*A) == [True] * 5 + [False] * 15
    assert a.get(*B) == [True] * 3 + [False] * 17
    for each in (b, a, directory):
        each.end()


def test_who_stood_still(place: Town) -> None:
    """The directory: it takes nobody for dead. A node: it is told to begin anew."""
    directory = place.directory()
    a, b = place.node(), place.node()
    directory.wait(alive=2, telling=0)
    a.put(*A)
    directory.wait(keys=20)
    directory.stop()
    began = time.monotonic()
    assert b.get("a 1") == [False]
    assert b.get("a 1") == [False]
    assert time.monotonic() - began < 5
    b.put(*B)
    time.sleep(SPANS.dead * 1.3 / 1e9)
    directory.go_on()
    deadline = time.monotonic() + SPANS.suspect / 1e9
    while time.monotonic() < deadline:
        figures = directory.figures()
        assert figures["alive"] + figures["suspect"] == 2
        assert figures["places"] >= 20
    directory.wait(alive=2, keys=40)
    until(lambda: b.get(*A) == [True] * 20)
    until(lambda: a.get(*B) == [True] * 20)
    a.stop()
    directory.wait(alive=1, suspect=0, places=20)
    a.go_on()
    directory.wait(alive=2, telling=0, keys=40)
    assert b.get(*A) == [True] * 20


@pytest.mark.slow
def test_copies(place: Town) -> None:
    directory = place.directory()
    a, b, c = place.node(), place.node(), place.node()
    directory.wait(alive=3, telling=0)
    assert a.put(*A, replicas=2) == [["STORED"] * 20, [2] * 20]
    directory.wait(keys=20, places=40, lacking=0)
    assert b.count() + c.count() == 20
    a.kill()
    directory.wait(alive=2, suspect=0)
    for each in (b, c):
        assert each.get(*A) == [True] * 20
