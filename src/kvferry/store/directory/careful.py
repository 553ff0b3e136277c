"""A home where nothing is committed but what its owner still vouches for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import messages as m
from ..answers import Answers
from ..table import Ints, Words
from ..user.found import Found, Key, Room, Watch
from ..user.home import Home
from ..user.pieces import Pieces
from ..user.stock import Extents
from ..user.targets import Target
from ..user.values import Values

__all__ = ["Careful"]


class Careful(Home):
    """The same home. `check` raises before each commit whose bytes may have changed while they were
    written: then they become no object."""

    def __init__(self, home: Home, check: Callable[[], None]) -> None:
        self._home = home
        self._check = check
        self.joined = home.joined
        self.name = home.name

    @property
    def gone(self) -> bool:
        return self._home.gone

    def ask(self, request: m.Request, kind: type[m.R], timeout: float | None = None) -> m.R:
        return self._home.ask(request, kind, timeout)

    def write(self, extents: Extents, values: Values, timeout: float | None) -> None:
        self._home.write(extents, values, timeout)

    def write_pieces(
        self, extents: Extents, pieces: Pieces, offsets: Words, timeout: float | None
    ) -> None:
        self._home.write_pieces(extents, pieces, offsets, timeout)

    def commit(self, attempts: Words, values: Values, timeout: float | None) -> Answers:
        self._check()
        return self._home.commit(attempts, values, timeout)

    def exists(self, keys: Sequence[Key]) -> Answers:
        return self._home.exists(keys)

    def keep(self, keys: Sequence[Key], span: int) -> Answers:
        return self._home.keep(keys, span)

    def read(self, keys: Sequence[Key], room: Room, watch: Watch) -> Found:
        return self._home.read(keys, room, watch)

    def read_pieces(
        self, keys: Sequence[Key], target: Target, rows: Ints | None, watch: Watch
    ) -> Found:
        return self._home.read_pieces(keys, target, rows, watch)

    def leave(self) -> None:
        self._home.leave()
