"""Extents that were given out to be written, until they are committed or surely left alone."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

__all__ = ["Attempts", "State"]

ROW_BITS = 24
ROWS = 1 << ROW_BITS
ROW = np.uint64(ROWS - 1)

Ints = NDArray[np.int64]


class State(IntEnum):
    """Of an attempt. Only RESERVED may become an object; QUARANTINED waits for its writer."""

    UNKNOWN = 0
    OVER = 1
    RESERVED = 2
    QUARANTINED = 3


class Attempts:
    """A row for each extent that a user may be writing.

    attempt   | serial of the row's use, 40 bits | row, 24 bits |   never used again
    """

    def __init__(self) -> None:
        self._serial = np.zeros(0, np.int64)
        self._user = np.zeros(0, np.int64)
        self._state = np.zeros(0, np.uint8)
        self.offsets = np.zeros(0, np.int64)
        self.rooms = np.zeros(0, np.int64)
        self._free = np.zeros(0, np.int64)  # rows, the next one last
        self._bytes = dict.fromkeys(State, 0)

    def open(self, user: int, offsets: Ints, rooms: Ints) -> NDArray[np.uint64]:
        """An attempt for each extent."""
        count = len(offsets)
        self._grow(count - len(self._free))
        rows, self._free = self._free[::-1][:count], self._free[: len(self._free) - count]
        self._serial[rows] += 1
        self._user[rows] = user
        self.offsets[rows], self.rooms[rows] = offsets, rooms
        self._move(rows, State.RESERVED)
        return (self._serial[rows] << ROW_BITS | rows).astype(np.uint64)

    def find(self, user: int, attempts: NDArray[np.uint64]) -> tuple[Ints, NDArray[np.uint8]]:
        """Row and state of each; of one that occurs twice all but the first are OVER."""
        rows = (attempts & ROW).astype(np.int64)
        serial = (attempts >> np.uint64(ROW_BITS)).astype(np.int64)
        states = np.full(len(rows), State.UNKNOWN, np.uint8)
        issued = np.flatnonzero((rows < len(self._serial)) & (serial > 0))
        issued = issued[serial[issued] <= self._serial[rows[issued]]]
        states[issued] = State.OVER
        current = issued[serial[issued] == self._serial[rows[issued]]]
        alive = current[self._state[rows[current]] >= State.RESERVED]
        own = self._user[rows[alive]] == user
        states[alive[~own]] = State.UNKNOWN
        alive = alive[own]
        alive = alive[np.unique(rows[alive], return_index=True)[1]]
        states[alive] = self._state[rows[alive]]
        return rows, states

    def of(self, user: int) -> Ints:
        """Rows of all extents that a user may be writing."""
        return np.flatnonzero((self._user == user) & (self._state >= State.RESERVED))

    def quarantine(self, rows: Ints) -> None:
        """No longer to be committed, not yet to be used again."""
        self._move(rows, State.QUARANTINED)

    def close(self, rows: Ints) -> None:
        """These attempts are over; their extents are the caller's."""
        self._move(rows, State.OVER)
        self._free = np.concatenate((self._free, rows))

    def bytes(self, state: State) -> int:
        """Of all extents in a state."""
        return self._bytes[state]

    def open_rows(self) -> Ints:
        return np.flatnonzero(self._state >= State.RESERVED)

    def _move(self, rows: Ints, state: State) -> None:
        rooms = self.rooms[rows]
        for old in (State.RESERVED, State.QUARANTINED):
            self._bytes[old] -= int(rooms[self._state[rows] == old].sum())
        self._bytes[state] += int(rooms.sum()) if state != State.OVER else 0
        self._state[rows] = state

    def _grow(self, missing: int) -> None:
        if missing <= 0:
            return
        old = len(self._serial)
        more = max(missing, old, 64)
        if old + more > ROWS:
            raise OverflowError(f"more than {ROWS} extents reserved at once")
        for name in ("_serial", "_user", "_state", "offsets", "rooms"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate((column, np.zeros(more, column.dtype))))
        self._free = np.concatenate((np.arange(old + more - 1, old - 1, -1), self._free))
