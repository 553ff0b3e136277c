"""A store with a namespace and a codec, over each way in which a user reaches a node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from kvferry import PeerError, UsageError
from kvferry.store import Answer, Cause, Store
from kvferry.store.codecs import Codec, Fp8, Int8, Layout, Zstd
from kvferry.store.user.namespace import PLAIN, Namespace
from tests.store.settings import Setting, over_tcp

LAYOUT = Layout("float16", (16, 8, 32))
INT8 = Int8(LAYOUT)
SECRET = bytes(range(16))

Open = Callable[..., Store]


def blocks(count: int) -> list[Any]:
    return list(np.random.default_rng(7).normal(0, 1, (count, 16, 8, 32)).astype("f2"))


@pytest.fixture
def opened(setting: Setting) -> Iterator[Open]:
    """One more user of the node, in a namespace."""
    unix, host = setting.owner.engine.addresses
    with ExitStack() as stack:

        def another(**wanted: Any) -> Store:
            if setting.way != "far":
                return stack.enter_context(Store(unix, **wanted))
            with over_tcp():
                return stack.enter_context(Store(f"kv://{host}", **wanted))

        yield another


def as_read(codec: Codec, value: Any) -> bytes:
    raw = memoryview(value).cast("B")
    opened, target = codec.open(codec.encode(raw)), bytearray(raw.nbytes)
    assert opened is not None
    assert codec.decode(opened, memoryview(target))
    return bytes(target)


@pytest.mark.parametrize("codec", [Zstd(), INT8, Fp8(LAYOUT)], ids=["zstd", "int8", "fp8"])
def test_there_and_back(codec: Codec, opened: Open) -> None:
    store = opened(namespace="layers", codec=codec)
    values = [*blocks(3), blocks(1)[0][:5], b""]
    keys = [f"key {index}" for index in range(len(values))]
    expected = [as_read(codec, value) if len(value) else b"" for value in values]
    assert store.put(keys[0], values[0]) is Answer.STORED
    results = store.put_batch(keys, values, parents=keys)
    assert list(results) == [Answer.PRESENT] + [Answer.STORED] * 4
    assert results.lengths.tolist() == [0, 8192, 8192, 2560, 0]

    assert [store.get(key) for key in keys] == expected
    assert store.get_batch([*keys, "none"]) == [*expected, None]
    outs = [np.full(9000, 7, np.uint8) for _ in range(6)]
    results = store.get_batch_into([*keys, "none"], outs)
    assert list(results) == [Answer.FOUND] * 5 + [Answer.ABSENT]
    assert results.lengths.tolist() == [8192, 8192, 8192, 2560, 0, 0]
    for out, value in zip(outs, [*expected, b""], strict=True):
        assert out[: len(value)].tobytes() == value
        assert (out[len(value) :] == 7).all()
    assert store.get_into(keys[3], outs[0]) == 2560
    assert store.get_into("none", outs[0]) is None
    assert store.get("none") is None


def test_the_node_in_this_process() -> None:
    values, out = blocks(2), bytearray(8192)
    with Store(namespace="layers", codec=INT8, size="1MiB") as store:
        assert store.put_batch(["a", "b"], values).ok
        assert store.get("a") == as_read(INT8, values[0])
        assert store.get_batch_into(["b"], [out]).ok
    assert out == as_read(INT8, values[1])


def test_while_others_work(opened: Open) -> None:
    store, values = opened(codec=INT8), blocks(4)
    keys = ["a", "b", "c", "d"]
    assert store.put_batch_async(keys, values).wait(20).ok
    outs = [np.empty_like(value) for value in values]

    async def read() -> Any:
        return await store.get_batch_into_async(keys, outs)

    assert asyncio.run(read()).ok
    assert [out.tobytes() for out in outs] == [as_read(INT8, value) for value in values]


def test_all_that_is_about_keys(opened: Open) -> None:
    store = opened(namespace="layers", codec=INT8)
    store.put_batch(["a", "b"], blocks(2), ttl=100)
    assert store.exists_batch(["a", "b", "c"]).tolist() == [True, True, False]
    assert store.pin(["a", "c"])[0] is Answer.FOUND
    assert list(store.group(["a", "b"])) == [Answer.FOUND] * 2
    with store.lease(["a", "c"], 5) as lease:
        assert lease.held.tolist() == [True, False]
    assert store.why("a").cause is Cause.PRESENT
    assert store.remove("a")
    assert store.why("a").cause is Cause.REMOVED
    assert not store.exists("a")


def test_namespaces_do_not_see_each_other(opened: Open, setting: Setting) -> None:
    spaces = [
        {},
        {"namespace": "layers"},
        {"namespace": "others"},
        {"namespace": "layers", "codec": INT8},
        {"codec": Int8(Layout("float16", (8, 16, 32)))},
    ]
    stores = [opened(**space) for space in spaces]
    for number, (store, value) in enumerate(zip(stores, blocks(5), strict=True)):
        assert store.put("key", value) is Answer.STORED
        assert [each.exists("key") for each in stores[number:]] == [True] + [False] * (4 - number)
    assert setting.user.get("key") == stores[0].get("key") == blocks(5)[0].tobytes()


def test_a_small_buffer(opened: Open) -> None:
    store, (value,) = opened(codec=INT8), blocks(1)
    store.put("key", value)
    out = bytearray(b"x" * 8191)
    with pytest.raises(UsageError) as refused:
        store.get_into("key", out)
    assert refused.value.cause == "too_small"
    results = store.get_batch_into(["key"], [out])
    assert (results[0], results.lengths[0]) == (Answer.TOO_SMALL, 8192)
    assert out == b"x" * 8191


def test_what_is_refused_is_not_stored(opened: Open) -> None:
    store, values = opened(codec=INT8), blocks(3)
    values[1][3, 4, 5] = np.inf
    for wrong, cause in ((values, "not_finite"), ([values[0], bytes(9), values[2]], "layout")):
        with pytest.raises(UsageError) as refused:
            store.put_batch(["a", "b", "c"], wrong)
        assert (refused.value.cause, refused.value.index) == (cause, 1)
        assert not store.exists_batch(["a", "b", "c"]).any()
    with pytest.raises(UsageError) as refused:
        store.view("a")
    assert refused.value.cause == "encoded"
    for keys in ("key", [1]):
        for call in (
            store.get_batch,
            lambda keys: store.get_batch_into(keys, [bytearray(9)] * len(keys)),
        ):
            with pytest.raises(UsageError):
                call(keys)


def test_what_is_garbled_is_corrupt(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    store, values = opened(codec=INT8), blocks(2)
    encode = Int8.encode

    def garbled(codec: Int8, value: memoryview) -> bytearray:
        stored = encode(codec, value)
        stored[99] ^= 1
        return stored

    store.put("good", values[0])
    with monkeypatch.context() as patch:
        patch.setattr(Int8, "encode", garbled)
        store.put("bad", values[1])
    out = np.zeros(8192, np.uint8)
    for get in (lambda: store.get("bad"), lambda: store.get_into("bad", out)):
        with pytest.raises(PeerError) as failed:
            get()
        assert failed.value.cause == "corrupt"
    results = store.get_batch_into(["bad", "good"], [out, np.empty_like(values[0])])
    assert list(results) == [Answer.CORRUPT, Answer.FOUND]
    assert store.get_batch(["bad", "good"]) == [None, as_read(INT8, values[0])]


def test_secrets_of_namespaces() -> None:
    """Each field counts, and in its place."""
    names = [None, "", "a", "b", "codec"]
    codecs = [None, Zstd(), Zstd(4), INT8, Fp8(LAYOUT), Int8(Layout("bfloat16", (16, 8, 32)))]
    secrets = {Namespace(name, codec).secret_of(SECRET) for name in names for codec in codecs}
    assert len(secrets) == len(names) * len(codecs)
    assert all(len(secret) == 16 for secret in secrets)
    assert PLAIN.secret_of(SECRET) == SECRET
    space = Namespace("a", INT8)
    assert space.secret_of(SECRET) == Namespace("a", Int8(LAYOUT)).secret_of(SECRET)
    assert space.secret_of(SECRET) != space.secret_of(SECRET[::-1])


@pytest.mark.parametrize(
    ("wanted", "cause"),
    [
        ({"namespace": 1}, "namespace"),
        ({"namespace": "\ud800"}, "namespace"),
        ({"codec": 3}, "codec"),
    ],
)
def test_what_is_no_namespace(wanted: dict[str, Any], cause: str) -> None:
    with pytest.raises(UsageError) as refused:
        Store(**wanted)
    assert refused.value.cause == cause
