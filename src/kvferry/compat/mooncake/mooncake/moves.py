"""One call of a caller: arrays of addresses become batches, and the batches become transfers."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kvferry._core import now
from kvferry.batch import Batch
from kvferry.engine import Channel
from kvferry.errors import Error, UsageError

from .peers import Peers

__all__ = ["Addresses", "Rows", "deliver", "left", "rows_of"]

ASK_SECONDS = 5.0  # that a peer may take to say what it has registered

T = TypeVar("T")
Addresses = Sequence[int] | npt.NDArray[Any]
Rows = npt.NDArray[np.uint64]  # a piece each: address here, address there, bytes; none of 0


def rows_of(local: Addresses, remote: Addresses, lengths: Addresses) -> list[Rows]:
    """What there is to move: one element, or none when there is no byte in it.

    Raises UsageError for lists of unequal length, TypeError for what are no integers.
    """
    if not len(local) == len(remote) == len(lengths):
        raise UsageError(
            f"{len(local)} buffers, {len(remote)} addresses of the peer, {len(lengths)} lengths",
            cause="unequal_lengths",
        )
    if not len(lengths):
        return []
    try:
        # Of a list: of bytes an array would be made as they lie.
        flat = array("Q", [*_plain(local), *_plain(remote), *_plain(lengths)])
    except OverflowError:
        raise TypeError("addresses and lengths are from 0 to 2**64 - 1") from None
    rows = np.frombuffer(flat, np.uint64).reshape(3, -1).T.copy()
    some = np.count_nonzero(rows[:, 2])
    if some == len(rows):
        return [rows]
    return [rows[rows[:, 2] != 0]] if some else []


def _plain(values: Addresses) -> Sequence[int]:
    """Of which Python's own integers are read: several times as fast as NumPy's."""
    return values.tolist() if isinstance(values, np.ndarray) else values


def deliver(
    peers: Peers,
    target: str,
    parts: Sequence[Rows],
    deadline: int,
    act: Callable[[Channel, Batch], T],
) -> list[T]:
    """What `act` returns for every part. Raises what it raises.

    What was refused before anything moved is tried again after a repair, each repair once.
    """
    tried: set[str] = set()
    while True:
        channel = peers.channel(target)
        done: list[T] = []
        try:
            for rows in parts:
                done.append(act(channel, Batch(rows)))  # noqa: PERF401  it is looked at below
            return done
        except Error as error:
            fault = "ended" if channel.stale() else error.cause
            if done or error.bytes_moved != 0 or fault in tried or fault not in REPAIRS:
                raise
            tried.add(fault)
            parts = REPAIRS[fault](channel, parts, deadline)


def left(deadline: int) -> float:
    """Seconds to a point in nanoseconds of the monotonic clock."""
    return max(deadline - now(), 0) / 1e9


def _ask_anew(channel: Channel, parts: Sequence[Rows], deadline: int) -> Sequence[Rows]:
    """It may have been registered after we met."""
    channel.known_regions.refresh(min(left(deadline), ASK_SECONDS))
    return parts


def _cut_by_path(channel: Channel, parts: Sequence[Rows], deadline: int) -> Sequence[Rows]:
    """What the peer allocated and what it registered may lie on two paths: one part for each."""
    cut: list[Rows] = []
    for rows in parts:
        remote, own = rows[:, 1], np.zeros(len(rows), bool)
        for region in list(channel.regions.values()):
            if region.own:
                own |= (remote >= region.address) & (remote - region.address < region.length)
        cut += [rows[chosen] for chosen in (own, ~own) if chosen.any()]
    return cut


def _as_they_are(channel: Channel, parts: Sequence[Rows], deadline: int) -> Sequence[Rows]:
    """The next look for a channel finds another one."""
    return parts


REPAIRS: dict[str, Callable[[Channel, Sequence[Rows], int], Sequence[Rows]]] = {
    "ended": _as_they_are,
    "not_registered": _ask_anew,
    "mixed_paths": _cut_by_path,
}
