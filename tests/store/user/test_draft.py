"""Values that are written in parts: nobody sees them before they are whole and committed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as tries
from hypothesis import strategies as st

from kvferry import Pieces
from kvferry.errors import ClosedError, Error, ForkedError, PeerError, RightsError, UsageError
from kvferry.store import Answer, Limits, Store
from kvferry.store.user import underway
from kvferry.store.user.home import Home
from kvferry.testing import spawn
from kvferry.testing.process import Parent
from tests.store.settings import Setting, node_of, settings, sound
from tests.store.user.test_fork import in_child


@pytest.fixture
def setting(emptied: Setting) -> Iterator[Setting]:
    yield emptied
    assert reserved(emptied) == 0


def serve(parent: Parent, folder: str) -> None:
    """A node, and what it has, by key."""
    listen = (f"unix://{folder}/node", "127.0.0.1:0")
    with Store(size="8MiB", listen=listen, limits=Limits(high=1.0, low=1.0)) as store:
        parent.tell([str(each) for each in store.engine.addresses])
        for verb, key in parent:
            if verb == "sound":
                parent.tell(sound(node_of(store)))
            else:
                found = store.get(key)
                parent.tell(None if found is None else found.hex())


def reserved(setting: Setting) -> int:
    """Bytes of the pool that are in drafts, and not in the stock of the user."""
    own: Any = setting.user._own.both
    own[1].give_back()
    with setting.node.clerk:
        return setting.node.catalog.usage().reserved


SIZES = st.lists(st.sampled_from([0, 1, 64, 5000, 40_000]), min_size=1, max_size=4)
WRITES = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1), st.floats(0, 1)), max_size=4), max_size=5
)


@tries(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(SIZES, WRITES, st.booleans())
def test_a_model_of_bytes(
    setting: Setting, sizes: list[int], writes: list[list[tuple[int, float, float]]], ends: bool
) -> None:
    store, seed = setting.user, np.random.default_rng(len(writes))
    keys = [f"key {i}" for i in range(len(sizes))]
    model, written = [bytearray(size) for size in sizes], [bytearray(size) for size in sizes]
    with store.draft(keys, sizes) as draft:
        assert set(draft.answers) <= {Answer.RESERVED}

        def write(rows: list[int], places: list[tuple[int, int]]) -> None:
            parts = [seed.bytes(length) for _, length in places]
            draft.write(rows, [[part] for part in parts], [[begin] for begin, _ in places])
            for row, (begin, length), part in zip(rows, places, parts, strict=True):
                model[row][begin : begin + length] = part
                written[row][begin : begin + length] = b"1" * length

        for some in writes:
            rows = [row % len(sizes) for row, _, _ in some]
            begins = [int(x * sizes[row]) for row, (_, x, _) in zip(rows, some, strict=True)]
            lengths = [
                int(y * (sizes[row] - begin))
                for row, begin, (_, _, y) in zip(rows, begins, some, strict=True)
            ]
            write(rows, list(zip(begins, lengths, strict=True)))
        whole = [row for row, seen in enumerate(written) if 0 not in seen]
        if len(whole) < len(sizes):
            with pytest.raises(UsageError) as refused:
                draft.commit()
            assert refused.value.cause == "unwritten"
            assert refused.value.index not in whole
        assert store.get_batch(keys) == [None] * len(keys)
        if ends:
            left = [row for row in range(len(sizes)) if row not in whole]
            write(left, [(0, sizes[row]) for row in left])
            whole = list(range(len(sizes)))
        assert draft.commit(whole).codes.tolist() == [Answer.STORED] * len(whole)
    expected = [bytes(model[row]) if row in whole else None for row in range(len(sizes))]
    assert store.get_batch(keys) == expected
    assert [setting.owner.get(key) for key in keys] == expected
    later = [Answer.STORED if row in whole else Answer.ABORTED for row in range(len(sizes))]
    assert list(draft.answers) == later
    store.remove_batch(keys)


def test_layer_after_layer(setting: Setting) -> None:
    """Of four values at once, from memory by address."""
    store, layers, part = setting.user, 12, 3000
    memory = np.frombuffer(bytearray(np.random.default_rng(5).bytes(4 * layers * part)), np.uint8)
    blocks = memory.reshape(layers, 4, part)
    keys = [f"key {i}" for i in range(4)]
    with store.draft(keys, np.full(4, layers * part)) as draft:
        for layer in range(layers):
            addresses = blocks[layer].ctypes.data + np.arange(4) * part
            pieces = Pieces(np.arange(5), addresses, np.full(4, part), memory)
            draft.write(np.arange(4), pieces, np.full(4, layer * part))
            assert not store.exists_batch(keys).any()
        assert draft.commit().ok
    assert store.get_batch(keys) == [blocks[:, i].tobytes() for i in range(4)]


def test_what_is_there_has_no_place(store: Store, setting: Setting) -> None:
    store.put("old", b"old value")
    with store.draft(["new", "old", "large"], [3, 9, 1 << 40]) as draft:
        assert list(draft.answers) == [Answer.RESERVED, Answer.PRESENT, Answer.TOO_LARGE]
        draft.write([0], [[b"new"]], [0])
        with pytest.raises(UsageError) as refused:
            draft.write([0, 1], [[b"NEW"], [b"x"]], [0, 0])
        assert (refused.value.cause, refused.value.index) == ("rows", 1)
        assert list(draft.commit([1, 0])) == [Answer.PRESENT, Answer.STORED]
        assert list(draft.commit()) == [Answer.STORED, Answer.PRESENT, Answer.TOO_LARGE]
        with pytest.raises(UsageError):
            draft.write([0], [[b"NEW"]], [0])
    assert store.get_batch(["new", "old", "large"]) == [b"new", b"old value", None]


def test_the_first_who_commits_has_it(store: Store, setting: Setting) -> None:
    with store.draft(["key"], [1]) as one, store.draft(["key"], [1]) as other:
        one.write([0], [[b"1"]], [0])
        other.write([0], [[b"2"]], [0])
        assert list(other.commit()) == [Answer.STORED]
        assert list(one.commit()) == [Answer.PRESENT]
    assert store.get("key") == b"2"


def test_a_time_to_live(store: Store, setting: Setting) -> None:
    with store.draft(["key"], [1], ttl=0.05) as draft:
        draft.write([0], [[b"1"]], [0])
        assert draft.commit().ok
    done = threading.Event()
    while store.exists("key"):
        done.wait(0.01)


def test_no_room_is_said_and_comes_back(store: Store, setting: Setting) -> None:
    with store.draft(["a", "b"], [700 << 10, 700 << 10]) as draft:
        assert sorted(draft.answers) == [Answer.RESERVED, Answer.FULL]
        assert not store.put_batch(["c"], [bytes(700 << 10)]).ok
    assert list(draft.answers).count(Answer.ABORTED) == 1
    assert store.put("c", bytes(700 << 10)) is Answer.STORED


BAD: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "beyond": (lambda d: d.write([0], [[b"xx"]], [4]), UsageError, "out_of_bounds"),
    "far beyond": (lambda d: d.write([0], [[b"x"]], [(1 << 64) - 1]), UsageError, "out_of_bounds"),
    "the second": (
        lambda d: d.write([0, 0], [[b"x"], [b"x"]], [0, 5]),
        UsageError,
        "out_of_bounds",
    ),
    "long": (lambda d: d.write([0], [[b"x" * 6]], [0]), UsageError, "out_of_bounds"),
    "negative": (lambda d: d.write([0], [[b"x"]], [-1]), UsageError, "offsets"),
    "huge": (lambda d: d.write([0], [[b"x"]], [1 << 64]), UsageError, "offsets"),
    "offsets": (lambda d: d.write([0], [[b"x"]], [0, 1]), UsageError, "offsets"),
    "rows": (lambda d: d.write([0, 1], [[b"x"]], [0]), UsageError, "rows"),
    "no row": (lambda d: d.write([2], [[b"x"]], [0]), UsageError, "rows"),
    "negative row": (lambda d: d.write([-1], [[b"x"]], [0]), UsageError, "rows"),
    "row": (lambda d: d.write(["0"], [[b"x"]], [0]), UsageError, "rows"),
    "float row": (lambda d: d.write([0.5], [[b"x"]], [0]), UsageError, "rows"),
    "no buffer": (lambda d: d.write([0], [[5]], [0]), UsageError, "not_a_buffer"),
    "strided": (lambda d: d.write([0], [[np.zeros(4)[::2]]], [0]), UsageError, "not_contiguous"),
    "commit row": (lambda d: d.commit([5]), UsageError, "rows"),
    "drop row": (lambda d: d.drop([5]), UsageError, "rows"),
    "unwritten": (lambda d: d.commit([1]), UsageError, "unwritten"),
}


def test_what_is_refused_moves_nothing(store: Store, setting: Setting) -> None:
    with store.draft(["a", "b"], [5, 5]) as draft:
        draft.write([0], [[b"value"]], [0])
        for name, (call, error, cause) in BAD.items():
            with pytest.raises(error) as refused:
                call(draft)
            assert refused.value.cause == cause, name  # type: ignore[attr-defined]
        assert list(draft.commit([0])) == [Answer.STORED]
    assert store.get_batch(["a", "b"]) == [b"value", None]
    sizes: list[Any] = [[1], [1, -1], [1, 1 << 62], [1, "1"], [1, 1.5], [1, None], 5]
    for wrong in sizes:
        with pytest.raises(UsageError):
            store.draft(["c", "d"], wrong)
    for keys in ([5, "k"], "ab"):
        with pytest.raises(UsageError):
            store.draft(keys, [1, 1])  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        store.draft(["c"], [1], ttl=-1)


def test_nobody_commits_what_is_being_written(
    make: Callable[..., Setting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commit and drop of a value wait for who writes to it, and for nobody else; writes do not wait
    for each other."""
    setting = make()
    store, inside, go_on = setting.user, threading.Barrier(3), threading.Event()
    home: Any = type(setting.user._own.home)
    write_pieces = home.write_pieces

    def slow(self: Home, *arguments: Any) -> None:
        inside.wait(10)
        assert go_on.wait(10)
        write_pieces(self, *arguments)

    with store.draft(["a", "b", "c"], [2, 1, 1]) as draft, ThreadPoolExecutor(4) as threads:
        draft.write([0, 1, 2], [[b"--"], [b"-"], [b"3"]], [0, 0, 0])
        monkeypatch.setattr(home, "write_pieces", slow)
        writes = [threads.submit(draft.write, [0], [[b"12"[i : i + 1]]], [i]) for i in range(2)]
        inside.wait(10)
        commit: Future[Any] = threads.submit(draft.commit, [0])
        assert list(threads.submit(draft.commit, [2]).result(10)) == [Answer.STORED]
        threads.submit(draft.drop, [1]).result(10)
        assert not commit.done()
        assert store.get_batch(["a", "c"]) == [None, b"3"]
        go_on.set()
        assert [each.result(10) for each in writes] == [None, None]
        assert list(commit.result(10)) == [Answer.STORED]
        monkeypatch.undo()
    assert store.get_batch(["a", "b"]) == [b"12", None]


@pytest.mark.parametrize("way", ["mapped", "far"])
@pytest.mark.parametrize("ends", [True, False])
def test_what_is_written_while_the_store_closes_is_given_to_nobody(
    way: str, ends: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing waits for it and, when that lasts, leaves its place to nobody."""
    monkeypatch.setattr(underway, "PATIENCE", 10.0 if ends else 0.1)
    with settings(way, folder) as setting, ThreadPoolExecutor(2) as threads:
        store, inside, go_on = setting.user, threading.Event(), threading.Event()
        draft, home = store.draft(["key"], [400_000]), setting.user._own.home
        write_pieces = home.write_pieces

        def slow(*arguments: Any) -> None:
            inside.set()
            assert go_on.wait(10)
            write_pieces(*arguments)

        monkeypatch.setattr(home, "write_pieces", slow)
        written = threads.submit(draft.write, [0], [[b"1" * 400_000]], [0])
        assert inside.wait(10)
        closed = threads.submit(store.close)
        if ends:
            assert not wait([closed], 0.05).done
            go_on.set()
            assert written.result(10) is None
        closed.result(10)
        with setting.another() as other:
            keys = [f"other {at}" for at in range(10)]
            assert other.put_batch(keys, [b"2" * 100_000] * 10).ok  # more than there is room for
            before = other.get_batch(keys)
            go_on.set()
            with suppress(Error):  # at a distance there is no way any more
                written.result(10)
            assert other.get_batch(keys) == before
            assert before.count(b"2" * 100_000) == 10 - before.count(None) == (10 if ends else 6)
        with pytest.raises(ClosedError):
            draft.write([0], [[b"1"]], [0])


def test_a_write_that_fails_may_be_done_again(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, home = setting.user, type(setting.user._own.home)

    def fails(*_: Any) -> None:
        raise PeerError("a cut", cause="cut")

    with store.draft(["a"], [2]) as draft:
        with monkeypatch.context() as patch:
            patch.setattr(home, "write_pieces", fails)
            with pytest.raises(PeerError):
                draft.write([0], [[b"12"]], [0])
        with pytest.raises(UsageError):
            draft.commit()
        draft.write([0], [[b"12"]], [0])
        assert draft.commit().ok
    assert store.get("a") == b"12"


def test_a_child_and_a_closed_store_have_no_drafts(setting: Setting) -> None:
    store, closing = setting.user, None if setting.way == "embedded" else setting.another()
    draft = store.draft(["a"], [1])
    calls: list[Callable[[], Any]] = [
        lambda: draft.write([0], [[b"1"]], [0]),
        draft.commit,
        draft.drop,
    ]

    def body() -> None:
        for call in calls:
            with pytest.raises(ForkedError):
                call()
        draft.__exit__()

    assert in_child(body) == 0
    draft.write([0], [[b"1"]], [0])
    assert draft.commit().ok
    if closing is not None:
        with closing.draft(["b"], [1]) as open_still:
            open_still.write([0], [[b"1"]], [0])
            closing.close()
            for call in (lambda: open_still.write([0], [[b"1"]], [0]), open_still.commit):
                with pytest.raises(ClosedError):
                    call()
        assert not store.exists("b")


def test_who_may_only_read_writes_no_draft(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Home, "writes", False)
    with pytest.raises(RightsError):
        setting.user.draft(["a"], [1])


def test_the_places_of_a_user_that_is_killed_are_free_again(folder: Path) -> None:
    with settings("mapped", folder) as setting:
        with spawn(begin, str(setting.owner.engine.addresses[0])) as child:
            assert child.hear() == ["RESERVED"]
            with setting.node.clerk:
                assert setting.node.catalog.usage().reserved >= 500 << 10
            child.kill()
        waits = threading.Event()
        while not setting.user.put_batch(["large"], [bytes(900 << 10)]).ok:
            waits.wait(0.02)
        assert not setting.user.exists("a")


def begin(parent: Parent, unix: str) -> None:
    with Store(unix) as store:
        draft = store.draft(["a"], [500 << 10])
        draft.write([0], [[bytes(100)]], [0])
        parent.tell([answer.name for answer in draft.answers])
        parent.hear()
