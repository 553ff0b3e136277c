"""What users and nodes say: whatever arrives is a message, or refused."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry.errors import PeerError, UsageError
from kvferry.store import messages as m

REQUESTS = get_args(m.Request)
REPLIES = get_args(m.Reply)

columns = st.binary(max_size=40)
numbers = st.integers(0, (1 << 62) - 1)
VALUES = {
    "bytes": columns,
    "int": numbers,
    "bool": st.booleans(),
    "Span": numbers,
    "Column": columns,
    "Column | None": st.none() | columns,
    "Address": st.text(min_size=1, max_size=64),
    "str": st.text(max_size=9),
    "Name | None": st.none() | st.text(max_size=64),
    "Rights": st.sampled_from(["read", "write"]),
    "tuple[str, ...]": st.lists(st.text(max_size=5), max_size=3).map(tuple),
    "dict[str, dict[str, int]]": st.dictionaries(
        st.text(max_size=3), st.dictionaries(st.text(max_size=3), numbers, max_size=2), max_size=2
    ),
}

FLOWS = st.builds(
    m.Flow,
    **dict.fromkeys(("peer", "path"), st.text(max_size=9)),
    **dict.fromkeys(("writes", "suspected"), st.booleans()),
    **dict.fromkeys(("transfers", "bytes"), numbers),
    **dict.fromkeys(("seconds", "longest"), st.floats(0, 1e9)),
)
VALUES["tuple[Flow, ...]"] = st.lists(FLOWS, max_size=2).map(tuple)


def of(*kinds: type) -> st.SearchStrategy[Any]:
    made: list[st.SearchStrategy[Any]] = [
        st.builds(kind, **{name: VALUES[said] for name, said in kind.__annotations__.items()})
        for kind in kinds
    ]
    return st.one_of(made)


@settings(max_examples=80, deadline=None)
@given(message=of(*REQUESTS))
def test_requests_arrive_as_they_were_sent(message: Any) -> None:
    assert m.decode_request(m.encode(message)) == message


@settings(max_examples=100, deadline=None)
@given(message=of(*REPLIES))
def test_replies_arrive_as_they_were_sent(message: Any) -> None:
    body = m.encode(message)
    assert m.decode_reply(body, type(message)) == message
    for other in REPLIES:
        if other is not type(message):
            with pytest.raises(PeerError) as refused:
                m.decode_reply(body, other)
            assert refused.value.cause == "protocol"


def read(body: bytes) -> None:
    """As a node reads it, and as a user."""
    causes = {"protocol"}
    try:
        m.decode_request(body)
    except UsageError as error:
        causes.add(error.cause)
    for kind in REPLIES:
        try:
            m.decode_reply(body, kind)
        except PeerError as error:
            causes.add(error.cause)
    assert causes == {"protocol"}


@settings(max_examples=120, deadline=None)
@given(body=st.binary(max_size=200))
def test_bytes_of_any_kind_are_refused(body: bytes) -> None:
    read(body)


@settings(max_examples=120, deadline=None)
@given(
    message=of(*REQUESTS, *REPLIES),
    cut=st.integers(0, 400),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
)
def test_messages_that_were_damaged_are_read_or_refused(
    message: Any, cut: int, changes: list[tuple[int, int]]
) -> None:
    body = bytearray(m.encode(message))
    for at, byte in changes:
        body[at % len(body)] = byte
    read(bytes(body[: cut or len(body)]))


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from([k.__struct_config__.tag for k in REQUESTS]),
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(1 << 63), (1 << 64) - 1)
        | st.text(max_size=5)
        | columns,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        ),
        max_leaves=5,
    ),
    fields=st.lists(
        st.sampled_from(["user", "digests", "attempts", "lease", "ticket", "pin", "done"])
    ),
)
def test_fields_of_any_kind_are_read_or_refused(kind: str, value: Any, fields: list[str]) -> None:
    read(msgspec.msgpack.encode({"type": kind, **dict.fromkeys(fields, value)}))


@given(first=columns, second=columns)
def test_columns_of_words_fit_each_other(first: bytes, second: bytes) -> None:
    if len(first) == len(second) and len(first) % 8 == 0:
        words = m.words_in(first, second)
        assert [m.column_of(each) for each in words] == [first, second]
        if all(each < 1 << 63 for column in words for each in column.tolist()):
            assert [m.column_of(each) for each in m.numbers_in(first, second)] == [first, second]
            return
    with pytest.raises(UsageError) as refused:
        m.numbers_in(first, second)
    assert refused.value.cause == "protocol"


@given(column=columns)
def test_columns_of_digests(column: bytes) -> None:
    if len(column) % 16:
        with pytest.raises(UsageError):
            m.digests_in(column)
    else:
        assert m.column_of(m.digests_in(column)) == column
        assert m.digests_in(column).shape == (len(column) // 16, 2)


@given(count=st.integers(0, 5), column=columns)
def test_an_answer_has_a_row_for_each_key(count: int, column: bytes) -> None:
    answers = m.answers_in(column)
    if len(column) == count:
        m.check_rows(count, answers, np.zeros(count))
    else:
        with pytest.raises(PeerError):
            m.check_rows(count, answers)
