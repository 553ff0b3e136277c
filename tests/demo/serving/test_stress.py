"""Two engines, one pushing to the other, with everything going wrong at random: stores, transfers,
notifications, orders that come late or in another order. The tokens are those of plain generation,
everybody is served, and nothing is kept."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import kvferry as kf
from kvferry.demo.model import Llama, generate, load_model
from kvferry.demo.serving import housing
from kvferry.demo.serving.messages import Arrived, Finished, Given, Said, Unpushed, Wanted
from kvferry.demo.serving.mini_engine import MiniEngine
from kvferry.demo.serving.pages import Pages, pages_of, record_of
from kvferry.demo.serving.prefixes import Prefixes
from kvferry.demo.serving.push import Push
from kvferry.demo.serving.sequence import Sequence
from kvferry.errors import Full, PeerError, Timeout
from tests.demo.serving.late import LateChannel
from tests.demo.tiny import write_tiny

SIZE = 4
STEPS = 6000  # a hundred times what it takes
SHORT_RUN = (9, 17, 34)  # each finds something else when it is taken out
LONG_RUN = range(100)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Llama:
    return load_model(write_tiny(tmp_path_factory.mktemp("model") / "tiny.gguf"))


class Fate:
    """What goes wrong how often; its clock, in seconds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rate = self.random.choice([0, 0.05, 0.2, 0.5])
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 0.001
        return self._now

    def strikes(self, share: float = 1.0) -> bool:
        return self.random.random() < self.rate * share

    def fails(self) -> None:
        if self.strikes():
            raise self.random.choice([PeerError, Timeout, Full])("fate", cause="fate")
        if self.strikes():
            self._now += 20 * self.random.random()


class FlakyStore:
    """Fails before or after it has done it, is slow, and loses what it said it has."""

    def __init__(self, store: kf.Store, fate: Fate) -> None:
        self._store, self._fate = store, fate

    def exists_batch(self, keys: list[bytes], lease: float | None = None) -> Any:
        self._fate.fails()
        found = self._store.exists_batch(keys, lease=lease)
        if self._fate.strikes():
            lost = self._fate.random.sample(keys, -(-len(keys) // 3))
            self._store.remove_batch(lost, force=True)
        return found

    def put_batch(self, *asked: Any) -> Any:
        return self._done(self._store.put_batch, *asked)

    def get_batch_into(self, *asked: Any) -> Any:
        return self._done(self._store.get_batch_into, *asked)

    def close(self) -> None:
        """Another one does it."""

    def _done(self, verb: Any, *asked: Any) -> Any:
        self._fate.fails()
        done = verb(*asked)
        self._fate.fails()
        return done


class Side:
    """A worker's engine without its process."""

    def __init__(self, model: Llama, engine: kf.Engine, store: kf.Store, fate: Fate) -> None:
        self.blocks = fate.random.choice([14, 20, 30, 60])
        self.pages = Pages(engine, record_of(model.config, model.revision, SIZE), self.blocks)
        flaky: Any = (lambda: FlakyStore(store, fate)) if fate.random.random() < 0.8 else None
        prefixes = Prefixes(flaky, self.pages.memory, fate)
        self.said: list[Said] = []
        chunk = fate.random.choice([1, 3, 8, 40, 512])
        self.mini = MiniEngine(model, self.pages, prefixes, self._say, chunk=chunk, clock=fate)

    def _say(self, said: Said) -> None:
        self.said.append(said)

    def sequence(self, name: str, tokens: list[int], most: int, helped: bool = False) -> Sequence:
        return Sequence(self.mini.manager.request(name, tokens), most, frozenset(), helped)

    def step(self) -> None:
        """What is in no use is spoiled then."""
        self.mini.step()
        assert self.mini.manager.check_integrity() == []
        line = self.mini.manager.pool.line()
        self.pages.layers[:, line[~self.mini.manager.prefixes.holds(line)]] = np.nan


class Pair:
    """acts  at random, until all are served"""

    def __init__(
        self, decode: Side, prefill: Side, late: LateChannel, engine: kf.Engine, fate: Fate
    ):
        self.decode, self.prefill, self.late, self.fate = decode, prefill, late, fate
        self.engine = engine
        self.asks = dict(asks_of(fate.random, decode.blocks))
        self.todo = list(self.asks)
        self.orders: list[Wanted] = []
        self.inbox: list[Arrived | str] = []
        acts = {decode.step: 60, prefill.step: 60, self.add: 10, self.order: 30, self.hear: 30}
        self.acts = acts | {self.notified: 30, late.land_one: 20, self.forget: 2}

    def run(self) -> None:
        for _ in range(STEPS):
            (act,) = self.fate.random.choices([*self.acts], [*self.acts.values()])
            act()
            self.route()
            if not self.todo and self.told(Finished) == len(self.asks):
                return
        raise AssertionError("somebody is not served")

    def told(self, kind: type) -> int:
        return sum(isinstance(said, kind) for said in self.decode.said)

    def add(self) -> None:
        if self.todo:
            name = self.todo.pop()
            helped = self.fate.random.random() < 0.8
            self.decode.mini.add(self.decode.sequence(name, *self.asks[name], helped))

    def order(self) -> None:
        if self.orders:
            wanted = self.orders.pop(0)
            tokens, _ = self.asks[wanted.name]
            sequence = self.prefill.sequence(wanted.name, tokens, 1)
            channel: Any = self.late
            theirs, blocks = pages_of(self.late.channel), np.array(wanted.blocks)
            ours = self.prefill.pages.memory
            sequence.push = Push(channel, ours, theirs, blocks, wanted.start, len(tokens))
            try:
                self.prefill.mini.add(sequence)
            except kf.UsageError:
                self.inbox.append(wanted.name)

    def hear(self) -> None:
        if self.inbox:
            said = self.inbox.pop(0)
            if isinstance(said, Arrived):
                self.decode.mini.arrived(said.name, said.token)
            else:
                self.decode.mini.alone(said)

    def notified(self) -> None:
        for each in self.engine.notifications():
            self.inbox.append(msgspec.json.decode(each.message, type=Arrived))

    def forget(self) -> None:
        self.fate.random.choice([self.decode, self.prefill]).mini.forget()

    def route(self) -> None:
        wanted = [said for said in self.decode.said if isinstance(said, Wanted)]
        self.orders += wanted
        self.decode.said = [said for said in self.decode.said if said not in wanted]
        self.inbox += [said.name for said in self.prefill.said if isinstance(said, Unpushed)]
        self.prefill.said.clear()


def asks_of(random: random.Random, blocks: int) -> Iterator[tuple[str, tuple[list[int], int]]]:
    """Prompts that begin alike, each with how many tokens may follow."""
    stems = [[random.randrange(3, 200) for _ in range(length)] for length in (8, 20, 37)]
    for number in range(random.randrange(2, 10)):
        most = random.choice([0, 1, 2, 6, 20])
        stem = random.choice(stems)
        own = [random.randrange(3, 200) for _ in range(random.choice([1, 4, 30]))]
        tokens = stem[: random.randrange(len(stem) + 1)] + own
        yield f"{number}", (tokens[: (blocks - 1) * SIZE - most], most)


@contextmanager
def opened(model: Llama, address: str, fate: Fate) -> Iterator[Pair]:
    size = fate.random.choice(["1MiB", "4MiB"])
    with (
        kf.Engine("127.0.0.1:0") as theirs,
        kf.Engine() as ours,
        kf.Store(size=size, listen=[address]) as store,
    ):
        decode, prefill = Side(model, theirs, store, fate), Side(model, ours, store, fate)
        late = LateChannel(ours.connect(theirs.addresses[0]), fate)
        yield Pair(decode, prefill, late, theirs, fate)
        del decode, prefill


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=() if seed in SHORT_RUN else pytest.mark.slow) for seed in LONG_RUN],
)
def test_whatever_fails(
    model: Llama, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    fate = Fate(seed)
    monkeypatch.setattr(housing, "SHORT", fate.random.choice([0, 4, 20]))
    with opened(model, f"unix://{tmp_path / 'store'}", fate) as pair:
        pair.run()
        given = [said for said in pair.decode.said if isinstance(said, Given)]
        for name, (tokens, most) in pair.asks.items():
            told = [said.token for said in given if said.name == name]
            assert told == list(generate(model, tokens, most)), name
        while pair.prefill.mini.step():
            continue
        for side in (pair.decode, pair.prefill):
            assert side.mini.manager.pool.free_blocks == side.blocks - 1
        del pair, side
