"""The demo on a terminal; where there is none, the same as plain lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from ..serving import Turn
from .lines import compared, figures
from .speech import Speech, readable
from .summary import Summary

__all__ = ["Stage"]

LABEL = 21  # columns
TROUBLE = "yellow"


class Stage:
    """Audience of a play. One thread.

    decode     tokens to text
    questions  by the name of the ask
    """

    def __init__(
        self,
        console: Console,
        decode: Callable[[Sequence[int]], str],
        questions: Mapping[str, str],
    ) -> None:
        self._console, self._decode, self._questions = console, decode, questions
        self._scenes = 0
        self._status: Status | None = None
        self._speaking: str | None = None
        self._speech = Speech(decode)

    # ---- before ----

    def fact(self, name: str, text: str) -> None:
        self._line(f"{name:<{LABEL}}{text}")

    # ---- while it is played ----

    def scene(self, title: str) -> None:
        self._scenes += 1
        self._console.print()
        self._console.print(f"[bold]{self._scenes}. {escape(title)}[/]", soft_wrap=True)

    def waiting(self, what: str) -> None:
        """Drawn on a terminal alone."""
        if self._console.is_terminal:
            self._status = self._console.status(f"waiting for {what}")
            self._status.start()

    def token(self, turn: Turn) -> None:
        """The first one that speaks is heard; others are told when they are done."""
        if self._speaking is None:
            self.quiet()
            self._speaking = turn.ask.name
            self._speech = Speech(self._decode)
            self._begin(turn)
        if self._speaking == turn.ask.name:
            self._say(self._speech.more(turn.given))

    def served(self, turn: Turn) -> None:
        self.quiet()
        if turn.ask.name not in self._questions:
            return
        if self._speaking == turn.ask.name:
            self._say(f"{self._speech.end(turn.given)}\n")
        else:
            self._begin(turn)
            self._say(f"{readable(self._decode(turn.given))}\n")
        self._speaking = None
        self._line(f"   {_account(turn)}", "dim")
        for trouble in turn.troubles:
            self._line(f"   {trouble}; the rest was computed here", TROUBLE)

    # ---- after ----

    def summary(self, summary: Summary) -> None:
        for line in compared(summary, self._decode):
            self._line(f"   {line}", "bold red" if summary.differences else "bold green")
        for trouble in summary.troubles:
            self._line(f"   {trouble}", TROUBLE)
        self._console.print()
        for name, text in figures(summary):
            self.fact(name, text)

    def _begin(self, turn: Turn) -> None:
        self._line(f"   Q  {self._questions[turn.ask.name]}")
        self._say("   A  ")

    def _say(self, text: str) -> None:
        self._console.print(text, end="", markup=False, soft_wrap=True)

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style, markup=False, soft_wrap=True)

    def quiet(self) -> None:
        """Nothing is waited for any more. Idempotent."""
        if self._status is not None:
            self._status.stop()
            self._status = None


def _account(turn: Turn) -> str:
    """Where the KV of the prompt came from."""
    rest = len(turn.ask.tokens) - turn.account.found - turn.account.loaded
    parts = {
        "found in its own blocks": turn.account.found,
        "from the store": turn.account.loaded,
        "handed over" if turn.prefilled else "computed here": rest,
    }
    told = ", ".join(f"{count:,} {what}" for what, count in parts.items() if count > 0)
    first = f"first token after {turn.first:.2f} s; " if turn.times else "empty; "
    return f"{first}tokens of the prompt: {told}"
