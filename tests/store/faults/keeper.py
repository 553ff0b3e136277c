"""The process of a node in these tests, and what can be asked of it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

from kvferry import Engine, config
from kvferry.store import Limits
from kvferry.store.node import Node, Service
from kvferry.store.ssd import ssd_of
from kvferry.testing import Child, LeakCheck, spawn
from kvferry.testing.process import Parent

__all__ = ["CALM", "PATIENCE", "QUICK", "Keeper", "Reached", "keep"]

MIB = 1 << 20
PATIENCE = 15.0  # seconds for what must happen, on however busy a machine
POLL = 0.02
POOL = 4 * MIB

# Options of engines: those that wait for nobody's death, and those that soon think somebody dead.
CALM: dict[str, float] = {}
QUICK = {"beat": 0.1, "suspect_after": 0.4, "dead_after": 1.0, "quiet_grace": 1.0}


class Reached(Protocol):
    """Where users find a node, and what they have to be told besides."""

    options: dict[str, float]

    @property
    def unix(self) -> str: ...
    @property
    def tcp(self) -> str: ...


class Keeper:
    """A child with a node. Ends with its block; then nothing may be left of what it held."""

    def __init__(
        self, addresses: Sequence[str], options: dict[str, float] = CALM, **wanted: Any
    ) -> None:
        wanted.setdefault("size", POOL)
        self.options = options
        self._asked = list(addresses), options, wanted
        self.start()

    def start(self) -> None:
        """A new process, at the same addresses."""
        self.child: Child = spawn(keep, *self._asked)
        try:
            self.addresses: list[str] = self.child.hear()
        except BaseException:
            self.child.close()
            raise
        # Told apart by what they are, and the same again when it is started again.
        self._asked = (list(self.addresses), *self._asked[1:])

    @property
    def unix(self) -> str:
        return self.addresses[0]

    @property
    def tcp(self) -> str:
        return f"kv://{self.addresses[1]}"

    def look(self) -> dict[str, Any]:
        """What it has this moment; its books must be in order at any."""
        seen: dict[str, Any] = self.child.ask(["look"])
        assert seen["wrong"] == [], seen
        return seen

    def until(self, **wanted: int) -> dict[str, Any]:
        """Wait until its figures are these."""
        deadline = time.monotonic() + PATIENCE
        while True:
            seen = self.look()
            if all(seen[name] == figure for name, figure in wanted.items()):
                return seen
            assert time.monotonic() < deadline, f"wanted {wanted} of {seen}"
            time.sleep(POLL)

    def settled(self, users: int = 0) -> dict[str, Any]:
        """Wait until so many users are left, and nothing is of those that are not."""
        figures = {"reserved": 0} if not users else {}
        return self.until(users=users, silent=0, quarantined=0, deferred=0, **figures)

    def close(self, grace: float = 0.0) -> None:
        left = self.child.ask(["close", grace])
        assert left == [], f"the node left behind {left}"
        self.child.close()

    def kill(self) -> None:
        self.child.kill()
        self.child.close()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None and self.child.alive():
                self.settled()
                self.close()
        finally:
            self.child.close()


def keep(
    parent: Parent, addresses: list[str], options: dict[str, Any], wanted: dict[str, Any]
) -> None:
    """Is the node, and answers what it is asked."""
    leaks = LeakCheck()
    wanted["ssd"] = ssd_of(*wanted.get("ssd", (None, None)))
    wanted["limits"] = Limits(**wanted.get("limits", {}))
    with leaks:
        engine = Engine(*addresses, options=replace(config.from_environment(), **options))
        node = Node(engine, **wanted)
        service = Service(node)
        parent.tell(list(engine.addresses))
        for verb, *arguments in parent:
            if verb == "close":
                service.close(*arguments)
                engine.close()
                break
            parent.tell(_look(node))
        del engine, node, service
        parent.tell(leaks.left())


def _look(node: Node) -> dict[str, Any]:
    with node.clerk:
        usage = asdict(node.catalog.usage())
        wrong = node.catalog.check_integrity()
        members = list(node.members)
    parts = ("free", "objects", "reserved", "quarantined", "deferred")
    if sum(usage[part] for part in parts) != usage["capacity"]:
        wrong.append("the bytes do not add up to the pool")
    return {
        **usage,
        "wrong": wrong,
        "users": len(members),
        "silent": sum(each.silent for each in members),
        "regions": len(node.engine.regions),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }
