"""The three processes of a scenario, kept alive from case to case unless a case kills one."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from ..process import Child, spawn
from .census import Census
from .party import PATIENCE
from .sides import serve

__all__ = ["Crew", "Hang", "Player"]

# Seconds until a process that has not answered hangs: longer than any of its verbs may take.
WATCHDOG = 3 * PATIENCE

# Engines whose patience is short: the scenario waits for it often.
QUICK: dict[str, Any] = {
    "quiet_grace": 0.3,
    "call_timeout": 1.0,
    "copy_engines": 2,
    "bounce": "4:1",
}


class Hang(AssertionError):
    """A call did not return. The stacks of its process are on its standard error."""


class Player:
    """A process with an engine; verbs of sides.Party are its methods."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.child: Child = spawn(serve)
        self.address = ""

    def __getattr__(self, verb: str) -> Any:
        return lambda *arguments: self.ask(verb, *arguments)

    def ask(self, verb: str, *arguments: Any) -> Any:
        try:
            return self.child.ask([verb, *arguments], WATCHDOG)
        except TimeoutError:
            os.kill(self.child.pid, signal.SIGABRT)  # which makes it print its stacks
            raise Hang(f"{self.role}: {verb}{arguments} does not return") from None

    def open(self, *address: str) -> None:
        """A new engine; by default at a free port."""
        self.address = self.ask("open", QUICK, *address)

    def close(self) -> None:
        """End its engine, which leaves nothing behind."""
        left = self.ask("close")
        assert not left, f"{self.role} left behind: {left}"

    def count(self, old: int, new: int) -> Census:
        return Census(*self.ask("census", old, new))

    def kill(self) -> None:
        self.child.close()

    def renew(self) -> None:
        """A process in the place of one that was killed."""
        self.child = spawn(serve)


class Crew:
    """Initiator, target and bystander. Ends them with its block."""

    def __init__(self) -> None:
        self.initiator, self.target, self.bystander = self.players = tuple(
            Player(role) for role in ("the initiator", "the target", "the bystander")
        )

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with ExitStack() as undo:
            for player in self.players:
                undo.callback(player.child.close)
