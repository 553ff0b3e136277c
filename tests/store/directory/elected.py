"""Two directories that elect one over a real etcd, two nodes, and a user of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from kvferry import Engine, _core
from kvferry.engine import Channel
from kvferry.errors import Error
from kvferry.store.directory import messages as m
from kvferry.store.messages import column_of
from kvferry.testing import spawn
from kvferry.testing.faults.party import until
from kvferry.testing.process import Parent
from tests.store.directory.town import free_port
from tests.store.hosts.inhabitants import Command, Place, User
from tests.store.hosts.lan import enter

__all__ = ["Candidate", "Elected", "Here", "Watcher"]

BATCH = 20  # keys of one put
PAUSE = 0.02  # seconds before a look at what may have changed
ANSWER = 0.5  # seconds that a directory has to answer a watcher
SLOWEST = 4.0  # seconds that a call of a user may take, whatever is wrong with directories


class Here(NamedTuple):
    """A folder on this host."""

    folder: Path
    namespace: str = ""
    address: str = "127.0.0.1"


class Candidate:
    """A directory's command, and where it is reached."""

    def __init__(self, stack: ExitStack, place: Place, etcd: str) -> None:
        self.place = place
        self.at = f"{place.address}:{free_port()}"
        words = f"--listen={self.at}", f"--etcd={etcd}", "--cluster=test"
        self._start = lambda: Command(stack, place, "directory", *words)
        self.command = self._start()

    def start(self) -> None:
        """Again."""
        self.command = self._start().ready()


class Watcher:
    """Asks directories, from a process of its own. In each term one alone may be seen to lead, and
    none in a term that is over."""

    def __init__(self, stack: ExitStack, namespace: str = "") -> None:
        self._child = stack.enter_context(spawn(watch, namespace))
        self._led: dict[int, str] = {}

    def leads(self, at: str) -> bool:
        time.sleep(PAUSE)
        term: int = self._child.ask(["term", at])
        if term:
            assert term >= max(self._led, default=0), "a term that is over"
            assert self._led.setdefault(term, at) == at, "two lead in one term"
        return bool(term)

    def knows(self, at: str, keys: Sequence[str]) -> bool:
        """Does it lead, and tell a place for each key?"""
        said: bool = self._child.ask(["knows", at, keys])
        return said

    def leader(self, candidates: Sequence[Candidate]) -> Candidate:
        found: list[Candidate] = []

        def one() -> bool:
            found[:] = [each for each in candidates if self.leads(each.at)]
            return len(found) == 1

        until(one, "one leads")
        return found[0]


def watch(parent: Parent, namespace: str) -> None:
    enter(namespace)
    with Engine() as engine:
        for verb, at, *arguments in parent:
            channel = None
            try:
                channel = engine.connect(at, timeout=ANSWER)
                parent.tell(_VERBS[verb](engine, channel, *arguments))
            except Error:
                parent.tell(0)
                if channel is not None:
                    channel.close()


def _ask(channel: Channel, request: m.Request) -> m.Reply:
    return m.decode_reply(channel.call(m.SERVICE, m.encode(request), ANSWER))


def _term(engine: Engine, channel: Channel) -> int:
    """In which it leads; 0: it does not."""
    reply = _ask(channel, m.Look())
    return reply.figures.get("term", 0) if isinstance(reply, m.Looked) else 0


def _knows(engine: Engine, channel: Channel, keys: list[str]) -> bool:
    digests = _core.digest(keys, engine.derive(b"kvferry store", ""))
    reply = _ask(channel, m.Lookup(column_of(digests)))
    return isinstance(reply, m.Placed) and bool(m.places_in(reply, len(keys)).any(1).all())


_VERBS: dict[str, Callable[..., int]] = {"term": _term, "knows": _knows}


class Elected:
    """places  of two directories and two nodes

    `put` and `read` are the load: what is stored at one node is read at the other.
    """

    def __init__(self, stack: ExitStack, places: Sequence[Place], etcd: str) -> None:
        self.candidates = [Candidate(stack, place, etcd) for place in places[:2]]
        directories = [f"--directory={each.at}" for each in self.candidates]
        self.nodes = [
            Command(
                stack,
                place,
                *("node", "--dram=64MiB", f"--listen={place.address}:{free_port()}"),
                *(f"--listen=unix://{place.folder}/kvferry", "--grace=1", *directories),
            )
            for place in places[2:]
        ]
        for each in (*(candidate.command for candidate in self.candidates), *self.nodes):
            each.ready()
        self.users = [User(stack, place, f"unix://{place.folder}/kvferry") for place in places[2:]]
        self.keys: list[list[str]] = [[], []]  # stored at each node

    def put(self) -> None:
        """More keys; puts go on whatever becomes of directories."""
        for which, user in enumerate(self.users):
            keys = [f"{which} {len(self.keys[which]) + at}" for at in range(BATCH)]
            assert user.put(*keys) == ["STORED"] * BATCH
            self.keys[which] += keys

    def read(self) -> bool:
        """Own keys are always found; of the other's, is everything? No byte is ever wrong."""
        time.sleep(PAUSE)
        for which, user in enumerate(self.users):
            assert all(user.get(*self.keys[which][-BATCH:]))
            if not all(user.get(*self.keys[1 - which])):
                return False
        return True

    def bear(self, seconds: float) -> None:
        """Put and read meanwhile; nothing takes long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.put()
            self.read()
            assert max(user.took for user in self.users) < SLOWEST
            time.sleep(0.2)

    def settle(self) -> None:
        """Put some more; after a while everything is found everywhere."""
        self.put()
        until(self.read, "everything is found")

    def end(self) -> None:
        for user in self.users:
            user.end()
        assert [node.end() for node in self.nodes] == [0] * len(self.nodes)
