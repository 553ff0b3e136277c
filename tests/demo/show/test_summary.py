"""Figures, lines and a picture out of turns that were made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvferry.demo.serving import Account, Ask, Hop, Turn
from kvferry.demo.show import Played, Summary, summary_of
from kvferry.demo.show.lines import compared, figures
from kvferry.demo.show.summary import Difference
from kvferry.demo.show.timeline import Bar, bars, draw

BLOCK = 16
PROMPT = list(range(100))  # six full blocks, and four tokens
# Of two layers, in two steps: all but the last has arrived when that one is sent.
WAY = "fabric/host/none"
HOPS = [
    Hop(0, 10.1, 0.05, 600, WAY),
    Hop(1, 10.2, 0.05, 600, WAY),
    Hop(0, 10.3, 0.05, 200, "tcp/inline/none"),
    Hop(1, 10.4, 0.05, 200, WAY),
]


def turn(name: str, first: float, given: list[int], account: Account | None = None) -> Turn:
    times = [10.0 + first + 0.1 * number for number in range(len(given))]
    return Turn(Ask(name, PROMPT, 4), 10.0, given, times, account or Account(), done=True)


def played() -> Played:
    first = turn("one", 2.0, [1, 2, 3])
    first.prefilled, first.since, first.hops = Account(computed=100), 10.0, HOPS
    loaded = Account(loaded=96, loaded_bytes=9_600, loaded_seconds=0.002, computed=4)
    second = turn("two", 0.25, [4, 5, 6], loaded)
    plain = [turn("plain one", 2.5, [1, 2, 3]), turn("plain two", 2.0, [4, 5, 6])]
    return Played([first, second], plain, {"fabric": 9_600})


def text(summary: Summary) -> str:
    return "\n".join(" ".join(pair) for pair in figures(summary))


def test_figures() -> None:
    summary = summary_of(played(), BLOCK, 1)
    assert (summary.first, summary.with_reuse, summary.without_reuse) == (2.0, 0.25, 2.0)
    assert summary.ratio == 8
    assert (summary.hit_tokens, summary.prompt_tokens) == (96, 100)
    assert (summary.hit_blocks, summary.full_blocks) == (6, 6)
    assert (summary.handed_over.bytes, summary.handed_over.ways) == (1600, (WAY, "tcp/inline/none"))
    assert summary.handed_over.seconds == pytest.approx(0.2)
    assert summary.before_the_end == pytest.approx(1400 / 1600)
    assert summary.loaded.gbps == pytest.approx(9_600 / 0.002 / 1e9)
    assert summary.tokens_per_second == pytest.approx(10)
    assert (summary.compared, summary.differences, summary.troubles) == (6, (), ())


def test_lines() -> None:
    summary = summary_of(played(), BLOCK, 1)
    said = text(summary)
    assert "0.25 s with reuse, 2.00 s without: 8.0 times sooner" in said
    assert "96 of 100 tokens of the prompt, 6 of 6 full blocks (100.0 %)" in said
    assert "fabric (mapped memory of the node)" in said
    assert "88 % of it had arrived" in said
    assert list(compared(summary, str)) == ["identical: 6 tokens served, 6 computed plainly"]


@pytest.mark.parametrize(
    ("given", "difference", "same"),
    [
        ([4, 9, 6], Difference("two", 1, 9, 5), 4),
        ([4, 5], Difference("two", 2, None, 6), 5),
        ([4, 5, 6, 7], Difference("two", 3, 7, None), 6),
    ],
)
def test_an_answer_that_differs(given: list[int], difference: Difference, same: int) -> None:
    run = played()
    run.served[1].given[:] = given
    summary = summary_of(run, BLOCK, 1)
    assert (summary.differences, summary.compared) == ((difference,), same)
    (line,) = compared(summary, lambda tokens: f"<{tokens[0]}>")
    assert line.startswith(f"DIFFERENT: two, token {difference.position}: served ")
    assert ("the end" in line) == (None in (difference.served, difference.plain))


def test_a_run_in_which_much_failed() -> None:
    run = played()
    first, second = run.served
    del first.given[1:], first.times[1:]
    first.hops, first.troubles = [], ["the prefill worker ended"]
    second.account = Account(computed=100)
    for each in (second, run.plain[1]):
        each.given, each.times = [], []
    summary = summary_of(Played(run.served, run.plain, {}), BLOCK, 1, ["the node ended"])
    assert summary.troubles == ("the node ended", "one: the prefill worker ended")
    assert (summary.ratio, summary.handed_over.gbps, summary.before_the_end) == (0, 0, 0)
    said = text(summary)
    assert "the answer is empty" in said
    assert "reuse" not in said
    assert "handed over nothing" in said
    assert "loaded nothing" in said
    assert "decode" not in said


def test_nothing_was_reused() -> None:
    run = played()
    run.served[1].account = Account(computed=100)
    assert "0.25 s; nothing was reused" in text(summary_of(run, BLOCK, 1))


def test_when_layers_were_computed_sent_and_there() -> None:
    assert bars(HOPS[:2], 10.0) == [
        Bar(0, 0.0, pytest.approx(0.1), pytest.approx(0.15)),
        Bar(1, pytest.approx(0.1), pytest.approx(0.2), pytest.approx(0.25)),
    ]


@pytest.fixture(scope="module")
def _drawn_before(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first picture opens files of fonts, which stay open."""
    pytest.importorskip("matplotlib")
    draw(played(), summary_of(played(), BLOCK, 1), tmp_path_factory.mktemp("first") / "out.svg")


@pytest.mark.usefixtures("_drawn_before")
def test_a_picture(tmp_path: Path) -> None:
    draw(played(), summary_of(played(), BLOCK, 1), tmp_path / "out.svg")
    assert (tmp_path / "out.svg").read_bytes().startswith(b"<?xml")
