"""Lines of each format: what is read from them, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvferry.replay.formats import FORMATS, format_of
from kvferry.replay.lines import BadLine
from kvferry.replay.trace import Call
from tests.replay.samples import LINES, agentic_lines, bailian_lines, mooncake_lines


def read(name: str, line: str) -> list[Call]:
    form = FORMATS[name]
    return form.read(line.encode(), 1, form.block_tokens).calls


@pytest.mark.parametrize("name", FORMATS)
def test_a_first_line_tells_the_format(name: str) -> None:
    found = format_of(LINES[name]()[0].encode())
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("line", [b"{}", b"", b"hello", b'{"hash_ids"', b"timestamp,input,output"])
def test_others_are_of_no_format(line: bytes) -> None:
    found = format_of(line)
    assert found is None or found.name == "mooncake"  # by the one word that is there


def test_mooncake_is_in_milliseconds() -> None:
    (call,) = read(
        "mooncake", '{"timestamp":1500,"input_length":513,"output_length":2,"hash_ids":[9,4]}'
    )
    assert call[:3] == (1.5, 513, 2)
    assert call.ids.tolist() == [9, 4]


def test_bailian_is_in_seconds_and_has_ids_of_64_bits() -> None:
    (call,) = read("bailian", bailian_lines()[3])
    assert call.at == 0.75
    assert call.ids[0] == (1 << 64) - 1


def test_azure_is_of_the_clock_on_the_wall() -> None:
    first, second = (read("azure", line)[0] for line in LINES["azure"]()[1:])
    assert second.at - first.at == pytest.approx(4.314579, abs=1e-6)
    assert (first.inputs, first.outputs, len(first.ids)) == (374, 44, 0)


def test_agentic_tells_each_request_by_the_last_one() -> None:
    first, second = read("agentic", agentic_lines()[0])
    assert first.ids.tolist() == [1, 2, 3, 4]
    assert second.ids.tolist() == [1, 2, 3, 7, 8, 20]
    assert second.at == 2.5


def changed(line: str, **fields: Any) -> str:
    return json.dumps({**json.loads(line), **fields})


MOONCAKE, BAILIAN, AGENTIC = mooncake_lines(1)[0], bailian_lines(1)[0], agentic_lines()[0]


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("mooncake", MOONCAKE[:-3], "truncated"),
        ("mooncake", "[]", "Expected `object`"),
        ("mooncake", changed(MOONCAKE, timestamp=-1), ">= 0"),
        ("mooncake", changed(MOONCAKE, timestamp="now"), "Expected `float`"),
        ("mooncake", changed(MOONCAKE, input_length=1.5), "Expected `int`"),
        ("mooncake", changed(MOONCAKE, input_length=1 << 40), "<= 67108864"),
        ("mooncake", changed(MOONCAKE, output_length=-1), ">= 0"),
        ("mooncake", changed(MOONCAKE, hash_ids=[1]), "1 blocks for"),
        ("mooncake", changed(MOONCAKE, hash_ids=[-1]), ">= 0"),
        ("mooncake", '{"timestamp":0,"input_length":1}', "missing required field"),
        (
            "mooncake",
            '{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[18446744073709551616]}',
            "64 bits|out of range",
        ),
        ("bailian", changed(BAILIAN, parent_chat_id=-2), ">= -1"),
        ("bailian", changed(BAILIAN, timestamp=-0.5), ">= 0"),
        ("agentic", changed(AGENTIC, block_size=0), ">= 1"),
        ("agentic", changed(AGENTIC, reqs=[]), "length >= 1"),
        ("agentic", changed(AGENTIC, reqs=[[-1.0, 64, 1, 0, 0, 0, [[1, 1]]]]), ">= 0"),
        ("agentic", changed(AGENTIC, reqs=[[0, 64, 1, 0, 0, 1, []]]), "keeps 1 blocks"),
        (
            "agentic",
            changed(AGENTIC, reqs=[[0, 64, 1, 0, 0, 0, [[1, 1 << 32]]]]),
            "4294967296 blocks",
        ),
        (
            "agentic",
            changed(AGENTIC, reqs=[[5, 64, 1, 0, 0, 0, [[1, 1]]], [4, 64, 1, 0, 0, 1, []]]),
            "backwards",
        ),
        ("azure", "2023-11-16 18:15:46.68,374", "not a moment"),
        ("azure", "2023-11-16 18:15:46,-374,1", "not a moment"),
        ("azure", "2023-13-16 18:15:46,374,1", "does not match"),
        ("azure", "2023-11-16 18:15:46,9999999999,1", "more than"),
    ],
)
def test_bad_lines_are_refused(name: str, line: str, reason: str) -> None:
    with pytest.raises(BadLine, match=reason):
        read(name, line)


def test_what_is_no_utf8_is_refused() -> None:
    with pytest.raises(BadLine):
        FORMATS["bailian"].read(b'{"type":"\xff\xfe"}', 1, 16)
