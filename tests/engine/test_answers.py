"""The five answers rest on counters."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kvferry.engine.answers import answers
from kvferry.path import Path, parse

QUESTIONS = ["one-sided", "zero-copy", "direct", "mapped", "submitted by"]


class Counted(NamedTuple):
    """What a report would say."""

    path: Path
    bytes: int = 100
    staged_bytes: int = 0
    served_bytes: int = 0
    inline_copies: int = 0
    stream_submissions: int = 0
    coprocessor_batches: int = 0


@pytest.mark.parametrize(
    ("path", "counters", "said"),
    [
        (
            "fabric/host",
            {"stream_submissions": 2},
            ["nothing ran at the peer", "yes: copied once", "yes", "yes", "streams"],
        ),
        (
            "fabric/host",
            {"inline_copies": 1},
            ["nothing ran at the peer", "yes: copied once", "yes", "yes", "the calling thread"],
        ),
        (
            "cma/coprocessor",
            {"coprocessor_batches": 3},
            ["nothing ran", "yes: copied once by the kernel", "yes", "no", "a coprocessor"],
        ),
        (
            "tcp/host",
            {"stream_submissions": 1, "served_bytes": 100},
            ["native threads", "no: copied 2 times", "no: through the network", "no", "streams"],
        ),
        (
            "tcp/host/bounce",
            {"stream_submissions": 1, "served_bytes": 100, "staged_bytes": 40},
            ["native threads", "some bytes once more", "no", "no", "streams"],
        ),
        (
            "hixl/host",
            {},
            ["not told", "unless that stages", "does not say", "no", "the vendor's engine"],
        ),
    ],
)
def test_what_is_said(path: str, counters: dict[str, int], said: list[str]) -> None:
    (route,) = parse(path)
    found = answers(Counted(route, **counters))
    assert [answer.question for answer in found] == QUESTIONS
    for answer, text in zip(found, said, strict=True):
        assert text in answer.answer
    assert f"staged_bytes {counters.get('staged_bytes', 0)} of 100" in found[1].evidence
    for counter, value in counters.items():
        assert any(f"{counter} {value}" in answer.evidence for answer in found)
