"""What is said to a directory and by it: whatever arrives is a message, or refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry import _core
from kvferry.errors import Error, PeerError, UsageError
from kvferry.store.directory import Directory, Follower
from kvferry.store.directory import messages as m
from kvferry.store.directory.following import events_in, there_in
from kvferry.store.directory.listing import pages
from kvferry.store.directory.service import _VERBS
from tests.store.directory.test_directory import SPANS

REQUESTS, REPLIES = get_args(m.Request), get_args(m.Reply)

columns = st.binary(max_size=40) | st.binary(min_size=32, max_size=32)
numbers = st.integers(0, (1 << 62) - 1) | st.integers(0, 3)
short = st.text(min_size=1, max_size=5)
pairs = st.tuples(short, short)


def of(*kinds: type) -> st.SearchStrategy[Any]:
    return st.one_of([st.builds(kind, **values_of(kind)) for kind in kinds])


def values_of(kind: type) -> dict[str, st.SearchStrategy[Any]]:
    return {name: VALUES[said] for name, said in kind.__annotations__.items()}


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": numbers,
    "Count": numbers,
    "Count | None": st.none() | numbers,
    "Span": numbers,
    "bool": st.booleans(),
    "str": short,
    "Short": short,
    "Column": columns,
    "Space": st.binary(max_size=64),
    "tuple[str, ...]": st.lists(short, max_size=3).map(tuple),
    "dict[str, int]": st.dictionaries(short, numbers, max_size=3),
    "tuple[tuple[str, str], ...]": st.lists(pairs, max_size=3).map(tuple),
    "dict[int, tuple[str, str]]": st.dictionaries(st.integers(0, 3), pairs, max_size=3),
    "Annotated[int, msgspec.Meta(ge=0, le=_core.PLACES)]": st.integers(0, _core.PLACES),
    "Annotated[int, msgspec.Meta(ge=0, lt=_core.SHARDS)]": st.integers(0, _core.SHARDS - 1),
    "Annotated[int, msgspec.Meta(ge=0, le=BITS)]": st.integers(0, m.BITS),
    "Annotated[int, msgspec.Meta(ge=0, lt=1 << BITS)]": st.integers(0, (1 << m.BITS) - 1),
}
VALUES["Texts"] = of(m.Texts) | st.lists(st.none() | st.binary(max_size=9), max_size=3).map(
    m.texts_of
)
VALUES["dict[int, Where]"] = st.dictionaries(st.integers(0, 3), of(m.Where), max_size=3)
VALUES["tuple[Order, ...]"] = st.lists(st.builds(m.Order, of(m.Where), columns), max_size=2).map(
    tuple
)
VALUES["tuple[Standing, ...]"] = st.lists(of(m.Standing), max_size=2).map(tuple)


@settings(max_examples=60, deadline=None)
@given(message=of(*REQUESTS))
def test_requests_arrive_as_they_were_sent(message: Any) -> None:
    assert m.decode_request(m.encode(message)) == message


@settings(max_examples=60, deadline=None)
@given(message=of(*REPLIES))
def test_replies_arrive_as_they_were_sent(message: Any) -> None:
    assert m.decode_reply(m.encode(message)) == message


def read(body: bytes) -> None:
    """As a directory reads it, and as who asked it."""
    it = Directory(7, 0, spans=SPANS, rows=100, names=True)
    with suppress(Error):
        request = m.decode_request(body)
        _VERBS[type(request)](it, 5, request, 0)
    with suppress(PeerError):
        heard(m.decode_reply(body))


def heard(reply: m.Reply) -> None:
    if isinstance(reply, m.Followed):
        list(events_in(reply))
    elif isinstance(reply, m.Scanned):
        list(there_in(reply))
    elif isinstance(reply, m.Listed):
        next(pages(lambda *_: reply, b""), None)
    elif isinstance(reply, m.Placed):
        m.places_in(reply, 2)


@settings(max_examples=60, deadline=None)
@given(
    message=of(*REQUESTS, *REPLIES),
    cut=st.integers(0, 400),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
)
def test_messages_that_were_damaged_are_read_or_refused(
    message: Any, cut: int, changes: list[tuple[int, int]]
) -> None:
    body = bytearray(m.encode(message))
    for at, byte in changes:
        body[at % len(body)] = byte
    read(bytes(body[: cut or len(body)]))


@settings(max_examples=60, deadline=None)
@given(reply=of(m.Followed, m.Scanned))
def test_a_follower_of_a_liar(reply: Any) -> None:
    """It raises, or it tells events: nothing else, whatever was answered."""
    follower = Follower(lambda _, kind: reply if isinstance(reply, kind) else expected(kind))
    for _ in range(3):
        with suppress(PeerError):
            follower.step()


def expected(kind: type) -> Any:
    return m.Followed(1, 0, True, 0) if kind is m.Followed else m.Scanned(1, b"", b"", {})


@given(names=st.lists(st.none() | st.binary(max_size=20), max_size=6))
def test_names_are_what_was_packed(names: list[bytes | None]) -> None:
    assert list(m.texts_in(m.texts_of(names), len(names))) == names


@given(lengths=columns, text=columns, count=st.integers(0, 21))
def test_lengths_are_checked_first(lengths: bytes, text: bytes, count: int) -> None:
    with suppress(UsageError):
        names = m.texts_in(m.Texts(lengths, text), count)
        assert b"".join(name or b"" for name in names) == text
        assert m.texts_of(names) == m.Texts(lengths, text)


def test_more_than_a_message_may_name() -> None:
    it = Directory(7, 0, spans=SPANS, rows=100, names=True)
    for count, length in ((m.NAMES + 1, 1), (1, 1025)):
        names = m.texts_of([b"n" * length] * count)
        with pytest.raises(UsageError):
            it.name(m.Name(b"", bytes(16 * count), names, True), 0)
    with pytest.raises(UsageError):
        m.decode_request(msgspec.msgpack.encode({"type": "list", "space": bytes(65), "after": 0}))


def test_pages_that_never_end_are_refused() -> None:
    again = m.Listed(7, m.texts_of([]), 0)
    with pytest.raises(PeerError, match="same page"):
        list(pages(lambda *_: again, b""))
