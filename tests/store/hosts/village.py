"""A directory and nodes on hosts of their own, as their commands start them, each with a user."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kvferry.testing.faults.party import until
from tests.store.hosts.inhabitants import Command, User
from tests.store.hosts.lan import Host, Lan, lan

__all__ = ["Village", "found", "village"]

PAUSE = 0.1  # seconds from one look to the next


class Village:
    """hosts  of nodes; `users` are at home there, in the same order
    keeper  the directory's host
    """

    def __init__(self, net: Lan, stack: ExitStack, nodes: int) -> None:
        self.net = net
        self._stack = stack
        self.keeper = net.host()
        self.hosts = [net.host() for _ in range(nodes)]
        self.at = f"{self.keeper.address}:26200"
        self.directory = Command(stack, self.keeper, "directory", f"--listen={self.at}")
        self.nodes = [self.node(host) for host in self.hosts]
        for each in (self.directory, *self.nodes):
            each.ready()
        self.users = [self.user(host) for host in self.hosts]

    def node(self, host: Host) -> Command:
        return Command(
            self._stack,
            host,
            *("node", "--dram=8MiB", f"--domain={host.address}", "--grace=5"),
            *(f"--listen=unix://{host.folder}/kvferry", f"--listen={host.address}:26100"),
            f"--directory={self.at}",
        )

    def user(self, host: Host) -> User:
        """At home at the host's node; a host without one has its user placed."""
        home = f"unix://{host.folder}/kvferry" if host in self.hosts else f"kv://{self.at}"
        return User(self._stack, host, home)

    def end(self, *users: User) -> None:
        """In order; nothing is left behind, and nobody needs to be killed."""
        for user in (*self.users, *users):
            user.end()
        assert [each.end() for each in (*self.nodes, self.directory)] == [0] * (len(self.nodes) + 1)


@contextmanager
def village(folder: Path, nodes: int = 2) -> Iterator[Village]:
    with lan(folder) as net, ExitStack() as stack:
        yield Village(net, stack, nodes)


def found(user: User, *keys: str) -> None:
    def there() -> bool:
        time.sleep(PAUSE)
        return all(user.get(*keys))

    until(there, f"{keys} are found")
