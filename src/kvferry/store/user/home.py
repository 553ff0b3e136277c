"""The node that a user puts into and asks first."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ..._core import Block, IndexReader
from ...errors import RightsError, Timeout
from .. import messages as m
from ..answers import Answer, Answers
from ..table import Ints, Words
from .found import Found, Key, Room, Watch, fitting
from .pieces import Pieces
from .stock import Extents
from .targets import Target
from .values import Values

__all__ = ["Home"]

SETTLED = bytes([Answer.FOUND])
ANSWER = 1.0  # seconds beside
AGAIN = 0.005  # seconds, after which a node is asked again for which it took too long


class Home(ABC):
    """A user's place at one node, from joining it to leaving it. Thread-safe.

    joined  what the node said
    name    of the node
    reader  reads where the objects lie; None: the node's memory is not mapped here
    apart   the node is another process: to ask it is to wait for it
    """

    joined: m.Joined
    name: str
    reader: IndexReader | None = None
    apart: bool = True

    @property
    def writes(self) -> bool:
        """Does the user's token permit to write?"""
        return self.joined.rights == "write"

    def read_only(self) -> RightsError:
        """What to raise where it does not."""
        return RightsError("the token permits to read alone", cause="read_only", peer=self.name)

    @property
    def enrolled(self) -> bool:
        """See Store.enrolled."""
        return True

    def settle(self, timeout: float, alone: bool) -> bool:
        """See Store.settle. Raises as `ask` does; False: the node does not answer."""
        deadline = time.monotonic() + timeout
        while True:
            left = max(deadline - time.monotonic(), 0)
            try:
                told = self.ask(m.Settle(int(left * 1e9), alone), m.Told, left + ANSWER)
            except Timeout:
                return False
            if told.answers == SETTLED:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(AGAIN)

    @property
    @abstractmethod
    def gone(self) -> bool:
        """Is the node known to be gone, or to take this user for gone? Cheap."""

    @abstractmethod
    def ask(self, request: m.Request, kind: type[m.R], timeout: float | None = None) -> m.R:
        """The node's reply, which is of this kind. Raises PeerError, Timeout or ClosedError when
        none comes, UsageError for a request that is refused as a whole."""

    @abstractmethod
    def write(self, extents: Extents, values: Values, timeout: float | None) -> None:
        """Copy each value to its extent; it is there on return. Raises what transfers raise."""

    @abstractmethod
    def write_pieces(
        self, extents: Extents, pieces: Pieces, offsets: Words, timeout: float | None
    ) -> None:
        """Copy each piece of row i to its offset in extent i. The same."""

    @abstractmethod
    def commit(self, attempts: Words, values: Values, timeout: float | None) -> Answers:
        """What was written becomes objects. Raises Timeout or PeerError; then each key may have
        been stored or not, and doing it again is harmless."""

    @abstractmethod
    def exists(self, keys: Sequence[Key]) -> Answers:
        """FOUND, ABSENT or NODE_GONE each. Raises as ask does; TypeError for what is no key."""

    @abstractmethod
    def keep(self, keys: Sequence[Key], span: int) -> Answers:
        """The same, and what is FOUND stays for so many nanoseconds, or the longest lease there is.
        ABSENT also of what cannot be kept."""

    @abstractmethod
    def read(self, keys: Sequence[Key], room: Room, watch: Watch) -> Found:
        """Fill the buffers that `room` gives for the objects that are there. Raises as ask does,
        and what transfers raise; TypeError for what is no key."""

    def block(self, key: Key) -> tuple[int | None, Block | None]:
        """What an index reader says of one key, and the object where it lies; None, None: there is
        no such reader here. Raises as ask does; TypeError for what is no key."""
        return None, None

    def read_into(self, keys: Sequence[Key], outs: Sequence[Any], watch: Watch) -> Found:
        """Fill outs[i] with the object of keys[i], where it is there and fits."""
        return self.read(keys, fitting(outs), watch)

    @abstractmethod
    def read_pieces(
        self, keys: Sequence[Key], target: Target, rows: Ints | None, watch: Watch
    ) -> Found:
        """Fill these rows of a target with the objects that are there; None: all. The same."""

    def lose(self) -> None:
        """Take the node for gone, if it is reached over a wire. What is under way there fails."""
        return

    @abstractmethod
    def leave(self) -> None:
        """Give everything back. Nothing is read or written by this place any more."""
