"""What lives on the hosts: commands of kvferry, and users."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from kvferry.cli import main
from kvferry.config import from_environment
from kvferry.errors import Error
from kvferry.store import Store
from kvferry.testing import Child, LeakCheck, spawn
from kvferry.testing.process import Parent
from tests.store.faults.values import value, version_of
from tests.store.hosts.lan import enter

__all__ = ["Command", "Place", "User"]

SIZE = 3000  # bytes of a value: long enough to go one-sided
ENDS = 20.0  # seconds that an orderly end may take
WORDS = 60.0  # seconds that anything may take
PATIENCE = 1.0  # seconds for which a user waits for a node


class Place(Protocol):
    """A host, or a folder on this one.

    namespace  of its network; "": this host's
    folder     its own, where XDG_RUNTIME_DIR lies
    """

    namespace: str
    address: str
    folder: Path


class Command:
    """`kvferry words...` on a host."""

    def __init__(self, stack: ExitStack, host: Place, *words: str) -> None:
        self.child: Child = stack.enter_context(
            spawn(run, host.namespace, str(host.folder), list(words))
        )

    def ready(self) -> Command:
        """Itself, when it has said where it listens. To be called once."""
        self.child.hear(WORDS)
        return self

    def end(self) -> int:
        """By SIGTERM: its exit status."""
        os.kill(self.child.pid, signal.SIGTERM)
        status: int = self.child.result(ENDS)
        return status


class User:
    """Of a store, on a host. What it reads must be what the key says, or be missed."""

    def __init__(
        self, stack: ExitStack, host: Place, address: str, patience: float = PATIENCE
    ) -> None:
        self.child: Child = stack.enter_context(
            spawn(visit, host.namespace, str(host.folder), address, patience)
        )
        assert self.child.hear(WORDS) == "ready"
        self.took = 0.0  # seconds, of the last question

    def put(self, *keys: str, **how: Any) -> list[str]:
        return self._ask("put", keys, how)

    def get(self, *keys: str) -> list[bool]:
        return self._ask("get", keys)

    def why(self, key: str) -> str:
        said: str = self._ask("why", key)
        return said

    def remove(self, *keys: str) -> list[str]:
        return self._ask("remove", keys)

    def end(self) -> None:
        assert self.child.ask(["end"], WORDS)[1] == []
        self.child.close()

    def _ask(self, *question: Any) -> Any:
        self.took, answer = self.child.ask(list(question), WORDS)
        return answer


def run(parent: Parent, namespace: str, folder: str, words: list[str]) -> int:
    """What is printed is told."""
    _settle(namespace, folder)
    sys.argv = ["kvferry", *words]
    with contextlib.redirect_stdout(_Told(parent)):  # type: ignore[type-var]
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
    return 0


class _Told:
    """A stream of text whose lines the parent is told."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent

    def write(self, text: str) -> None:
        if text.strip():
            self._parent.tell(text.strip())

    def flush(self) -> None:
        pass


def visit(parent: Parent, namespace: str, folder: str, address: str, patience: float) -> None:
    _settle(namespace, folder)
    leaks = LeakCheck()
    with leaks:
        options = replace(from_environment(), call_timeout=patience)
        store = Store(address, options=options)
        parent.tell("ready")
        for verb, *arguments in parent:
            if verb == "end":
                store.close()
                break
            began = time.monotonic()
            try:
                answer = _VERBS[verb](store, *arguments)
            except Error as error:
                answer = [f"{type(error).__name__} {error.cause}"]
            parent.tell([time.monotonic() - began, answer])
        del store
        parent.tell([0.0, leaks.left()])


def _settle(namespace: str, folder: str) -> None:
    enter(namespace)
    os.environ["XDG_RUNTIME_DIR"] = folder


def _put(store: Store, keys: list[str], how: dict[str, Any]) -> list[str]:
    values = [value(key, 0, SIZE) for key in keys]
    results = store.put_batch(keys, values, **how)
    return [answer.name for answer in results]


def _get(store: Store, keys: list[str]) -> list[bool]:
    found = store.get_batch(keys)
    for key, one in zip(keys, found, strict=True):
        assert one is None or version_of(key, one) == 0
    return [one is not None for one in found]


_VERBS: dict[str, Callable[..., Any]] = {
    "put": _put,
    "get": _get,
    "why": lambda store, key: store.why(key).cause.name,
    "remove": lambda store, keys: [answer.name for answer in store.remove_batch(keys)],
}
