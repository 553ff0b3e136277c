"""Who uses a node: what each one told it in shared memory, and when it is surely gone."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from ..._core import Lines
from ...memory import Region
from ...path import LinkKind
from ...runtime import Access
from ..table import Words

__all__ = ["Member", "Members"]


@dataclass(eq=False)
class Member:
    """A user, until it left or is surely gone.

    number  names it in the catalog; never used again
    epoch   of its engine; the node's own for the process that the node is embedded in
    rights  with which it comes
    link    over which it reaches the pool
    pid     of its process; 0 where this process does not see it, None on another host
    pidfd   becomes readable when that process has exited
    region  its lines and, if it writes, its desk; None where it maps nothing
    joins   how often it joined and did not leave
    silent  its channel is over, but its process may still write to what it maps
    """

    number: int
    epoch: int
    name: str
    pid: int | None = None
    pidfd: int | None = None
    region: Region | None = None
    lines: Lines | None = None
    joins: int = 0
    silent: bool = False
    rights: Access = Access.WRITE
    link: LinkKind = LinkKind.LOOPBACK

    @property
    def exited(self) -> bool:
        """Has its process ended? Said of those on this host alone."""
        if self.pidfd is None:
            return bool(self.pid)  # it had, when it was to be looked at
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(0))

    @property
    def followed(self) -> bool:
        """Will it be known when its process ends?"""
        return bool(self.pid) or self.pidfd is not None

    def follow(self, pid: int | None, pidfd: int | None) -> None:
        """Learn of its process, by a descriptor, which is duplicated, or else by its number; of one
        that is gone by now the end is seen at once. Nothing changes where it is known."""
        if self.followed:
            return
        if pidfd is not None:
            self.pidfd = os.dup(pidfd)
        elif pid:
            with suppress(ProcessLookupError):
                self.pidfd = os.pidfd_open(pid)
        self.pid = pid

    def close(self) -> None:
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None


class Members:
    """All users of one node. Not thread-safe."""

    def __init__(self) -> None:
        self._by_number: dict[int, Member] = {}
        self._numbers = count(1)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._by_number.values()))

    def __len__(self) -> int:
        return len(self._by_number)

    def admit(
        self,
        epoch: int,
        name: str,
        pid: int | None,
        rights: Access = Access.WRITE,
        pidfd: int | None = None,
    ) -> Member:
        """A new user, whose process is followed."""
        member = Member(next(self._numbers), epoch, name, rights=rights)
        member.follow(pid, pidfd)
        self._by_number[member.number] = member
        return member

    def of(self, epoch: int, rights: Access = Access.WRITE) -> Member | None:
        """The user that an engine is, if it joined. Who comes with other rights is another."""
        who = epoch, rights
        return next(
            (each for each in self if (each.epoch, each.rights) == who and not each.silent), None
        )

    def numbered(self, number: int) -> Member | None:
        return self._by_number.get(number)

    def forget(self, member: Member) -> None:
        del self._by_number[member.number]
        member.close()

    def held(self, generations: Words) -> NDArray[np.bool_]:
        """Which of these, in ascending order, a reader holds."""
        held = np.zeros(len(generations), np.bool_)
        for member in self._by_number.values():
            if member.lines is not None:
                held |= member.lines.held(generations)
        return held
