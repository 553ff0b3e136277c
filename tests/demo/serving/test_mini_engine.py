"""The engine in one process: whatever happens to blocks, stores and steps, the tokens are those of
plain generation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvferry as kf
from kvferry.demo.model import Llama, generate, load_model
from kvferry.demo.serving.messages import Finished, Given, Said, Wanted
from kvferry.demo.serving.mini_engine import MiniEngine
from kvferry.demo.serving.pages import Pages, record_of
from kvferry.demo.serving.prefixes import PAUSE, Prefixes
from kvferry.demo.serving.sequence import Sequence
from kvferry.errors import NotQuiet, PeerError, UsageError
from kvferry.paged.stored import _keys
from tests.demo.tiny import write_tiny

SIZE = 4  # tokens of a block
MOST = 6


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Llama:
    return load_model(write_tiny(tmp_path_factory.mktemp("model") / "tiny.gguf"))


class House:
    """An engine, and what it said."""

    def __init__(
        self, model: Llama, pages: Pages, prefixes: Prefixes, chunk: int, clock: Any
    ) -> None:
        self.model, self.pages, self.prefixes = model, pages, prefixes
        self.said: list[Said] = []
        self.mini = MiniEngine(model, pages, prefixes, self.said.append, chunk=chunk, clock=clock)
        self.asked: dict[str, Sequence] = {}
        self.told: list[str] = []

    def add(self, name: str, tokens: Any, most: int = MOST, *, helped: bool = False) -> Sequence:
        request = self.mini.manager.request(name, tokens)
        sequence = Sequence(request, most, frozenset(), helped)
        self.asked[name] = sequence
        self.mini.add(sequence)
        return sequence

    def run(self) -> None:
        while self.mini.step():
            assert self.mini.manager.check_integrity() == []

    def given(self, name: str) -> list[int]:
        return [each.token for each in self.said if isinstance(each, Given) and each.name == name]

    def check(self, name: str, tokens: Any, most: int = MOST) -> Sequence:
        """It got what it should have got, and holds nothing."""
        assert self.given(name) == list(generate(self.model, tokens, most))
        assert [each for each in self.said if isinstance(each, Finished) and each.name == name]
        return self.asked[name]


@contextmanager
def opened(
    model: Llama, store: Any = None, *, blocks: int = 64, chunk: int = 16, clock: Any = None
) -> Iterator[House]:
    with kf.Engine() as engine:
        pages = Pages(engine, record_of(model.config, model.revision, SIZE), blocks)
        now = clock or iter(range(1_000_000)).__next__
        told: list[str] = []
        prefixes = Prefixes(store, pages.memory, now, told.append)
        house = House(model, pages, prefixes, chunk, now)
        house.told = told
        try:
            yield house
        finally:
            assert house.mini.manager.pool.free_blocks == blocks - 1
            del house, pages
            prefixes.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[str]:
    address = f"unix://{tmp_path / 'store'}"
    with kf.Store(size="16MiB", listen=[address]):
        yield address


def prompts(count: int, seed: int = 0, longest: int = 50) -> list[Any]:
    random = np.random.default_rng(seed)
    return [random.integers(3, 200, random.integers(1, longest)) for _ in range(count)]


@pytest.mark.parametrize("chunk", [1, 7, 16, 512])
def test_several_at_a_time(model: Llama, chunk: int) -> None:
    asked = prompts(5)
    with opened(model, chunk=chunk) as house:
        for index, tokens in enumerate(asked):
            house.add(f"{index}", tokens)
            house.mini.step()
        house.run()
        for index, tokens in enumerate(asked):
            assert house.check(f"{index}", tokens).account.computed == len(tokens) + MOST - 1


def test_what_the_own_blocks_have_is_not_computed_again(model: Llama) -> None:
    (tokens,) = prompts(1, longest=40)
    tokens = np.concatenate((tokens, np.arange(3, 30)))
    with opened(model) as house:
        house.add("first", tokens)
        house.run()
        house.add("second", tokens)
        house.add("third", np.append(tokens, 5))
        house.run()
        house.check("first", tokens)
        found = house.check("second", tokens).account
        assert found.found == (len(tokens) - 1) // SIZE * SIZE
        assert found.computed == len(tokens) + MOST - 1 - found.found
        house.check("third", np.append(tokens, 5))
        assert house.mini.forget()
        house.add("fourth", tokens)
        house.run()
        assert house.check("fourth", tokens).account.found == 0


@pytest.mark.parametrize("kept", [0, 3, 8], ids=lambda kept: f"{kept} blocks stay")
def test_only_what_the_store_has_lost_is_computed(model: Llama, node: str, kept: int) -> None:
    tokens = np.arange(3, 3 + 8 * SIZE + 2)
    with opened(model, lambda: kf.Store(node)) as first:
        first.add("first", tokens)
        first.run()
        first.check("first", tokens)
        hashes = first.mini.manager.request("names", tokens).hashes
    with kf.Store(node) as store, opened(model, lambda: kf.Store(node)) as second:
        has = second.prefixes.has

        def has_more(asked: Any) -> int:
            """They are found, and gone when they are loaded."""
            found = has(asked)
            store.remove_batch(_keys(hashes[kept:], second.pages.record), force=True)
            return found

        second.prefixes.has = has_more  # type: ignore[method-assign]
        second.add("second", tokens)
        second.run()
        account = second.check("second", tokens).account
    assert account.loaded == kept * SIZE
    assert account.missing == (8 - kept) * SIZE
    assert account.computed == len(tokens) - kept * SIZE + MOST - 1
    assert account.loaded_bytes == kept * record_of(model.config, "", SIZE).page_bytes


def test_answers_are_kept_too(model: Llama, node: str) -> None:
    tokens = np.arange(3, 3 + 4 * SIZE)
    with opened(model, lambda: kf.Store(node)) as house:
        house.add("first", tokens, most=9)
        house.run()
        house.check("first", tokens, 9)
        again = np.concatenate((tokens, house.given("first"), [7]))
        house.mini.forget()
        house.add("second", again)
        house.run()
        assert house.check("second", again).account.loaded == 6 * SIZE  # 16 and 8 of the answer


@pytest.mark.parametrize("stored", [True, False], ids=["swapped", "computed again"])
def test_too_few_blocks_for_all(model: Llama, node: str, stored: bool) -> None:
    asked = prompts(4, seed=3, longest=20)
    store = (lambda: kf.Store(node)) if stored else None
    with opened(model, store, blocks=13) as house:
        for index, tokens in enumerate(asked):
            house.add(f"{index}", tokens, most=20)
        house.run()
        sequences = [house.check(f"{i}", tokens, 20) for i, tokens in enumerate(asked)]
    assert sum(each.account.preempted for each in sequences) > 0
    computed = sum(each.account.computed for each in sequences)
    once = sum(len(tokens) + 19 for tokens in asked)
    assert computed == once if stored else computed > once


def test_a_store_that_is_slow_is_not_waited_for(model: Llama, node: str) -> None:
    """It takes a hundred times as long as computing does, by a clock of its own."""
    now = [0.0]

    def clock() -> float:
        now[0] += 0.01
        return now[0]

    tokens = np.arange(3, 3 + 20 * SIZE)
    with opened(model, lambda: kf.Store(node), chunk=128, clock=clock) as house:
        load = house.prefixes.load

        def load_slowly(*asked: Any) -> int:
            now[0] += 100.0
            return load(*asked)

        house.prefixes.load = load_slowly  # type: ignore[method-assign]
        accounts = []
        for name in ("computes", "tries", "knows"):
            house.add(name, tokens)
            house.run()
            accounts.append(house.check(name, tokens).account)
            house.mini.forget()
    assert [account.loaded for account in accounts] == [0, 19 * SIZE, 0]
    assert accounts[2].computed == accounts[0].computed


def test_a_store_that_is_away_is_asked_again_later(model: Llama, node: str) -> None:
    now, fails = [0.0], [True]

    def store() -> kf.Store:
        if fails[0]:
            raise PeerError("away", cause="away")
        return kf.Store(node)

    tokens = np.arange(3, 3 + 5 * SIZE)
    with opened(model, store, clock=lambda: now[0]) as house:
        house.add("first", tokens)
        house.run()
        house.check("first", tokens)
        assert house.prefixes.failures == 1, "asked while it was known to be away"
        now[0] += PAUSE
        house.add("beside", tokens)
        house.run()
        assert house.prefixes.failures == 2
        assert [said.endswith("away [away]") for said in house.told] == [True], "told once"
        fails[0] = False
        now[0] += PAUSE
        house.mini.forget()
        house.add("second", tokens)
        house.run()
        house.mini.forget()
        house.add("third", tokens)
        house.run()
        assert house.check("second", tokens).account.loaded == 0
        assert house.check("third", tokens).account.loaded == 4 * SIZE


def test_kv_of_other_weights_is_not_found(
    model: Llama, node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = load_model(write_tiny(tmp_path / "other.gguf", seed=1))
    tokens = np.arange(3, 3 + 5 * SIZE)
    for each in (model, other, model):
        with opened(each, lambda: kf.Store(node)) as house:
            house.add("same", tokens)
            house.run()
            loaded = house.check("same", tokens).account.loaded
    assert loaded == 4 * SIZE
    with opened(other, lambda: kf.Store(node)) as house:
        house.add("again", tokens)
        house.run()
        assert house.check("again", tokens).account.loaded == 4 * SIZE


def test_a_stop_ends_it_and_is_not_told(model: Llama) -> None:
    (tokens,) = prompts(1, seed=5)
    whole = list(generate(model, tokens, 8))
    stop = next(token for token in whole if token != whole[0])
    with opened(model) as house:
        sequence = Sequence(house.mini.manager.request("a", tokens), 8, frozenset({stop}))
        house.mini.add(sequence)
        house.run()
        assert house.given("a") == whole[: whole.index(stop)]


def test_refuses_what_never_fits(model: Llama) -> None:
    with opened(model, blocks=8) as house:
        with pytest.raises(UsageError, match="29 tokens"):
            house.add("a", np.arange(3, 26))
        house.add("b", np.arange(3, 25))
        house.run()
        house.check("b", np.arange(3, 25))


def test_refuses_what_the_model_does_not_know(model: Llama) -> None:
    with opened(model) as house:
        with pytest.raises(UsageError, match="token 300, of 300"):
            house.add("a", [5, 300])
        with pytest.raises(UsageError, match="-1 tokens"):
            house.add("a", [5], most=-1)
        house.add("a", [5])
        with pytest.raises(UsageError, match="another request 'a'"):
            house.add("a", [6])
        house.add("nothing is asked", [5], most=0)
        house.check("nothing is asked", [5], most=0)
        house.run()
        house.check("a", [5])


def test_who_goes_on_alone_is_not_told_the_rest(model: Llama) -> None:
    """That it is there was heard, although who said so was told that it was not."""
    tokens = np.arange(3, 103)
    with opened(model) as house:
        house.add("a", tokens, helped=True)
        house.run()
        assert [each.start for each in house.said if isinstance(each, Wanted)] == [0]
        house.mini.alone("a")
        house.mini.step()
        house.mini.arrived("a", 7)
        house.run()
        house.mini.arrived("a", 7)
        house.mini.alone("a")
        house.check("a", tokens)


def test_an_answer_is_not_asked_of_others(model: Llama) -> None:
    """Prompts were too short to be handed over; with their answers they are not."""
    asked = [np.random.default_rng(seed).integers(3, 200, 60) for seed in range(2)]
    with opened(model, blocks=34) as house:
        for index, tokens in enumerate(asked):
            house.add(f"{index}", tokens, most=20, helped=True)
        house.run()
        sequences = [house.check(f"{index}", tokens, 20) for index, tokens in enumerate(asked)]
    assert sum(each.account.preempted for each in sequences) > 0


def test_a_store_that_took_long_to_fail_is_left_alone_as_long(model: Llama) -> None:
    now, asked = [0.0], [0]

    def store() -> kf.Store:
        now[0] += 20
        asked[0] += 1
        raise PeerError("away", cause="away")

    with opened(model, store, clock=lambda: now[0]) as house:
        for at, times in ((0.0, 1), (39.0, 1), (40.0, 2)):
            now[0] = at
            assert house.prefixes.has([b"hash"]) == 0
            assert asked[0] == times


def test_a_store_that_may_still_write_is_no_miss(model: Llama) -> None:
    def store() -> kf.Store:
        raise NotQuiet("amid", peer="store", wait_quiet=lambda _: False)

    with opened(model, store) as house, pytest.raises(NotQuiet):
        house.prefixes.load([b"hash"], np.array([1]))
