"""What is lost, drained or comes back: everything is where it should be, and nothing twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kvferry import Engine, _core
from kvferry.config import from_environment
from kvferry.store import Answer, Cause, Store
from kvferry.store.directory import messages as m
from kvferry.store.directory.copier import BYTES_AT_ONCE, Copier
from kvferry.store.user.node_at import join
from tests.store.directory.elected import Here
from tests.store.directory.town import Keeper, free_port, town, until, value_of
from tests.store.hosts.inhabitants import Command
from tests.store.settings import node_of, over_tcp

MIB = 1 << 20
KEYS = [f"key {at}" for at in range(60)]


class Turns:
    """Stands for the end of a copier: how long it was waited for, with no time going by."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return False

    def set(self) -> None:
        pass


def test_a_copier_waits_as_long_as_its_rate_wants() -> None:
    """After each portion, of which none is larger than what goes at once."""
    rate, values = 1 << 20, [bytes(at) for at in range(0, 3 * MIB, 400_000)]
    with over_tcp(), ExitStack() as stack:
        a, b = (stack.enter_context(Store(size=16 * MIB, listen=["127.0.0.1:0"])) for _ in range(2))
        keys = KEYS[: len(values)]
        a.put_batch(keys, values)
        copier, turns = Copier(node_of(a), rate), Turns()
        copier._over = turns  # type: ignore[assignment]
        there = copier.copy(b.engine.addresses[0], _core.digest(keys, node_of(a).secret))
        copier.close()
        assert (there == Answer.STORED).all()
        assert b.get_batch(keys) == values
        assert sum(turns.waits) == pytest.approx(sum(map(len, values)) / rate)
        assert max(turns.waits) <= (BYTES_AT_ONCE + max(map(len, values))) / rate


@pytest.mark.slow
@pytest.mark.parametrize("rate", [64 << 20, 60_000])
def test_what_the_dead_had_is_copied_once(rate: int) -> None:
    """Also while it takes several rounds of the directory to copy it."""
    with town() as place:
        directory = place.directory()
        a, *others = (place.node(copy_rate=rate) for _ in range(4))
        directory.wait(alive=4, telling=0)
        assert a.put(*KEYS, replicas=2)[1] == [2] * len(KEYS)
        directory.wait(places=2 * len(KEYS))
        a.kill()
        directory.wait(alive=3, suspect=0, places=2 * len(KEYS), lacking=0)
        assert sum(each.count() for each in others) == 2 * len(KEYS)
        assert sum(each.ask("copied") for each in others) == sum(len(value_of(k)) for k in KEYS)
        for each in others:
            assert each.get(*KEYS) == [True] * len(KEYS)
        for each in (*others, directory):
            each.end()


@pytest.fixture
def directory() -> Iterator[Keeper]:
    with town() as place:
        yield place.directory()


@pytest.mark.slow
def test_what_a_drain_leaves_is_told_and_nothing_else_is_lost(directory: Keeper) -> None:
    """The only other node has not enough room."""
    size = 100_000
    with ExitStack() as stack:
        a, b = (
            stack.enter_context(
                Store(size=room, listen=["127.0.0.1:0"], directory=[directory.address])
            )
            for room in (8 * MIB, 2 * MIB)
        )
        directory.wait(alive=2, telling=0)
        large = bytes(3 * MIB)  # than the other's pool
        a.put("large", large)
        a.put_batch(KEYS[:10], [bytes([at]) * size for at in range(10)])
        directory.wait(places=11)
        home = a._own.home
        home._service.close(5.0)  # type: ignore[attr-defined]
        moved = home._service.moved  # type: ignore[attr-defined]
        secret = node_of(b).secret
        assert moved.left.tolist() == _core.digest(["large"], secret).tolist()
        assert moved.elsewhere == 10
        assert b.get_batch(KEYS[:10]) == [bytes([at]) * size for at in range(10)]


class Inn:
    """`kvferry directory` and three of `kvferry node`, the first with a disk; and a user whose own
    node is not among them."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self._places = [Here(folder / str(at)) for at in range(4)]
        for place in self._places:
            place.folder.mkdir()
        self._ports = [free_port() for _ in self._places]
        where = f"127.0.0.1:{self._ports[3]}"
        self.directory = Command(stack, self._places[3], "directory", f"--listen={where}")
        self._where = where
        self.nodes = [self.node(at) for at in range(3)]
        for each in (self.directory, *self.nodes):
            each.ready()
        self.user = stack.enter_context(Store(size=MIB, directory=[where]))

    def at(self, which: int) -> str:
        return f"127.0.0.1:{self._ports[which]}"

    def node(self, which: int) -> Command:
        place = self._places[which]
        disk = [f"--ssd={place.folder}/ssd", "--ssd-size=64MiB"] if which == 0 else []
        return Command(
            self._stack,
            place,
            *("node", "--dram=8MiB", f"--listen={self.at(which)}", "--grace=5"),
            *(f"--directory={self._where}", f"--domain={which}", *disk),
        )

    def members(self) -> int:
        with Engine() as engine:
            channel = engine.connect(self._where)
            reply = m.decode_reply(channel.call(m.SERVICE, m.encode(m.Look())))
        assert isinstance(reply, m.Looked)
        return reply.figures["alive"]

    def holds(self, which: int, keys: list[str]) -> NDArray[np.bool_]:
        """Which of these that node has itself; whose bytes must be right."""
        engine = self.user.engine
        home = join(engine, self.at(which))
        found: NDArray[np.bool_] = home.exists(keys) == Answer.FOUND
        some = np.array(keys)[found].tolist()
        outs = [bytearray(len(value_of(key))) for key in some]
        read = home.read_into(some, outs, None)
        for key, out, answer in zip(some, outs, read.answers, strict=True):
            assert answer != Answer.FOUND or out == value_of(key)
        home.leave()
        return found

    def store(self, which: int) -> Store:
        return self._stack.enter_context(Store(f"kv://{self.at(which)}"))


@pytest.fixture
def inn(tmp_path: Path) -> Iterator[Inn]:
    with ExitStack() as stack:
        yield Inn(stack, tmp_path)


@pytest.mark.slow
def test_nodes_are_drained_one_after_the_other(inn: Inn) -> None:
    values = [value_of(key) for key in KEYS]
    for which in range(3):
        writer, some = inn.store(which), slice(20 * which, 20 * which + 20)
        writer.put_batch(KEYS[some], values[some])
        writer.close()
    until(lambda: inn.user.exists_batch(KEYS).all(), "all is known")
    for _ in range(2):
        for which in (1, 2):  # what is on a disk stays there
            assert inn.nodes[which].end() == 0
            assert inn.user.get_batch(KEYS) == values
            inn.nodes[which] = inn.node(which).ready()


@pytest.mark.slow
def test_a_node_comes_back_with_what_was_removed_or_rewritten_meanwhile(inn: Inn) -> None:
    old = [value_of(key) for key in KEYS]
    writer = inn.store(0)
    results = writer.put_batch(KEYS, old, replicas=2)
    assert results.replicas is not None
    assert results.replicas.tolist() == [2] * len(KEYS)
    until(lambda: writer.stats()["ssd"]["objects"] == len(KEYS), "all is on the disk")
    until(lambda: _copies(inn.user) == len(KEYS), "all is known")
    writer.close()
    inn.nodes[0].child.kill()
    removed, rewritten, kept = KEYS[:20], KEYS[20:40], KEYS[40:]
    said = inn.user.remove_batch([*removed, *rewritten])
    assert set(said) == {Answer.NODE_GONE}  # one that may have them did not answer
    new = [value_of(f"new {key}") for key in rewritten]
    there = inn.store(1)
    there.put_batch(rewritten, new)
    inn.nodes[0] = inn.node(0).ready()
    back = inn.store(0)
    until(lambda: back.get(removed[0]) is None, "it has heard of it")
    until(lambda: inn.user.get_batch(rewritten) == new, "what is new is known")
    for user in (back, inn.user, there):
        assert user.get_batch(KEYS) == [None] * 20 + new + old[40:]
        assert not user.exists_batch(removed).any()
    assert back.why(removed[0]).cause is Cause.REMOVED
    assert set(inn.user.remove_batch(kept)) == {Answer.REMOVED}
    assert not np.any(back.exists_batch(kept))


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_a_node_is_killed_or_stopped_in_the_middle_of_a_put(inn: Inn, fault: str) -> None:
    """What is said to have copies has them."""
    options = replace(from_environment(), call_timeout=1.0, quiet_grace=1.0)
    with Store(f"kv://{inn.at(1)}", options=options) as writer:
        for turn in range(8):
            target = inn.nodes[2].child
            keys = [f"{turn} {at}" for at in range(200)]
            values = [value_of(key) for key in keys]
            begin = threading.Timer(0.004 * turn, getattr(target, fault))
            begin.start()
            began = time.monotonic()
            results = writer.put_batch(keys, values, replicas=3)
            assert time.monotonic() - began < 8
            begin.join()
            assert set(results) == {Answer.STORED}
            assert results.replicas is not None
            assert set(results.replicas.tolist()) <= {1, 2, 3}
            if fault == "kill":
                inn.nodes[2] = inn.node(2).ready()
            else:
                target.resume()
                alone = inn.holds(2, keys)
                assert all(alone[results.replicas == 3])
            first = inn.holds(0, keys)
            assert all(first[results.replicas == 3])
            assert writer.get_batch(keys) == values
            until(lambda: inn.members() == 3, "all are there")


def _copies(user: Store) -> int:
    """Of how many keys the directory tells two places."""
    elsewhere = user._elsewhere
    rows = [rows.tolist() for _, rows in elsewhere.told(KEYS)]
    times = [sum(at in each for each in rows) for at in range(len(KEYS))]
    return sum(each >= 2 for each in times)
