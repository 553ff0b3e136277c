"""A directory and nodes in processes of their own, with spans of tenths of seconds."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from kvferry import Engine
from kvferry.store import Store
from kvferry.store.directory import Directed, Service, Spans
from kvferry.store.directory.directed import RATE
from kvferry.testing import Child, LeakCheck, spawn
from kvferry.testing.process import Parent
from tests.store.settings import node_of, sound

__all__ = ["Housed", "Keeper", "Town", "town", "until", "value_of"]

MS = 1_000_000
SPANS = Spans(
    beat=200 * MS, suspect=800 * MS, dead=1800 * MS, late=300 * MS, ramp=1, repair=300 * MS
)
SIZE = 1 << 20
PATIENCE = 15.0
POLL = 0.02


def value_of(key: str) -> bytes:
    """Long enough to go one-sided, and no other key's."""
    return (key * 700).encode()


def until(true: Callable[[], Any], what: str = "it did not come") -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(POLL)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


class Housed:
    """A child at one address, which it has again when it is started again."""

    def __init__(self, serve: Callable[..., None], *arguments: Any) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._serve, self._arguments = serve, arguments
        self.child: Child
        self.start()

    def start(self) -> None:
        self.child = spawn(self._serve, self.address, *self._arguments)
        try:
            assert self.child.hear() == "ready"
        except BaseException:
            self.child.close()
            raise

    def ask(self, *verb: Any) -> Any:
        return self.child.ask(list(verb))

    def kill(self) -> None:
        self.child.kill()
        self.child.close()

    def stop(self) -> None:
        self.child.stop()

    def go_on(self) -> None:
        os.kill(self.child.pid, signal.SIGCONT)

    def end(self) -> None:
        """In order; nothing may be left behind."""
        assert self.ask("end") == []
        self.child.close()


class Keeper(Housed):
    """A directory."""

    def __init__(self, **wanted: Any) -> None:
        super().__init__(keep, wanted)

    def figures(self) -> dict[str, int]:
        found: dict[str, int] = self.ask("figures")
        return found

    def wait(self, **wanted: int) -> None:
        seen: dict[str, int] = {}

        def there() -> bool:
            seen.update(self.figures())
            return all(seen[name] == figure for name, figure in wanted.items())

        try:
            until(there)
        except AssertionError:
            raise AssertionError(f"wanted {wanted} of {seen}") from None


class Home(Housed):
    """A node with the user in its process."""

    def __init__(self, directory: list[str], **wanted: Any) -> None:
        super().__init__(dwell, directory, wanted)

    def put(self, *keys: str, **how: Any) -> list[Any]:
        """Answers, and how many nodes have each."""
        said: list[Any] = self.ask("put", keys, how)
        return said

    def get(self, *keys: str) -> list[bool]:
        """Which were found; whose bytes must be right."""
        said: list[bool] = self.ask("get", keys)
        return said

    def count(self) -> int:
        number: int = self.ask("count")
        return number


class Town:
    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.directories: list[Keeper] = []
        self.nodes: list[Home] = []

    def directory(self, **wanted: Any) -> Keeper:
        made = Keeper(**wanted)
        self._stack.callback(lambda: made.child.close())
        self.directories.append(made)
        return made

    def node(self, **wanted: Any) -> Home:
        made = Home([f"kv://{each.address}" for each in self.directories], **wanted)
        self._stack.callback(lambda: made.child.close())
        self.nodes.append(made)
        return made


@contextmanager
def town() -> Iterator[Town]:
    with ExitStack() as stack:
        yield Town(stack)


def keep(parent: Parent, address: str, wanted: dict[str, Any]) -> None:
    leaks = LeakCheck()
    with leaks:
        engine = Engine(address)
        service = Service(engine, spans=SPANS, **wanted)
        parent.tell("ready")
        for (verb,) in parent:
            if verb == "end":
                service.close()
                engine.close()
                break
            parent.tell(service.figures())
        del service, engine
        parent.tell(leaks.left())


def dwell(parent: Parent, address: str, directory: list[str], wanted: dict[str, Any]) -> None:
    leaks = LeakCheck()
    with leaks:
        wanted.setdefault("size", SIZE)
        rate = wanted.pop("copy_rate", RATE)
        directed = Directed(tuple(directory), wanted.pop("domain", ""), rate)
        store = Store(listen=[address], directory=directed, **wanted)
        parent.tell("ready")
        for verb, *arguments in parent:
            if verb == "end":
                assert sound(node_of(store)) == []
                store.close()
                break
            parent.tell(_VERBS[verb](store, *arguments))
        del store
        parent.tell(leaks.left())


def _put(store: Store, keys: list[str], how: dict[str, Any]) -> list[Any]:
    results = store.put_batch(keys, [value_of(key) for key in keys], **how)
    replicas = None if results.replicas is None else results.replicas.tolist()
    return [[answer.name for answer in results], replicas]


def _get(store: Store, keys: list[str]) -> list[bool]:
    found = store.get_batch(keys)
    for key, value in zip(keys, found, strict=True):
        assert value in (None, value_of(key)), f"{key} has wrong bytes"
    return [value is not None for value in found]


def _put_settled(store: Store, keys: list[str], seconds: float) -> bool:
    store.put_batch(keys, [value_of(key) for key in keys])
    return store.settle(seconds)


def _remove_settled(store: Store, keys: list[str], seconds: float) -> bool:
    store.remove_batch(keys)
    return store.settle(seconds)


def _count(store: Store) -> int:
    return store.stats()["usage"]["count"]


def _copied(store: Store) -> int:
    """Bytes that its node has copied to others."""
    home: Any = store._own.home
    copied: int = home._service._herald.copier.copied
    return copied


_VERBS: dict[str, Callable[..., Any]] = {
    "put": _put,
    "put_settled": _put_settled,
    "remove_settled": _remove_settled,
    "get": _get,
    "count": _count,
    "copied": _copied,
}
