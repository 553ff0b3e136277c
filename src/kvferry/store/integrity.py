"""What must hold of a catalog between any two verbs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .departures import Departures
from .evictor import Evictor
from .extents import Extents
from .policies import Policy
from .table import Entries, IndexLike, Ints, LedgerLike

__all__ = ["complaints"]


def complaints(
    index: IndexLike,
    extents: Extents,
    policy: Policy,
    ledger: LedgerLike,
    departures: Departures,
    evictor: Evictor,
) -> list[str]:
    """A sentence for each rule that is broken."""
    entries = index.scan(0, index.capacity)
    slots = entries["slot"].astype(np.int64)
    reserved, reserved_rooms = ledger.extents()
    holes, sizes = extents.holes()
    starts = [entries["offset"].astype(np.int64), reserved, departures.offsets]
    rooms = [entries["room"].astype(np.int64), reserved_rooms, departures.rooms]
    return [
        *_about_objects(index, entries, slots),
        *_about_policy(policy, slots, rooms[0]),
        *_about_bytes(extents, np.concatenate([*starts, holes]), np.concatenate([*rooms, sizes])),
        *_about_reservations(ledger, reserved_rooms),
        *evictor.complaints(slots),
    ]


def _about_objects(index: IndexLike, entries: Entries, slots: Ints) -> Iterator[str]:
    if index.count != len(entries):
        yield f"the index counts {index.count} and has {len(entries)}"
    if entries["marked"].any():
        yield "an object is marked, and stands"
    if len(np.unique(entries["generation"])) != len(entries):
        yield "two objects have one generation"
    if (entries["length"] > entries["room"]).any():
        yield "an object is longer than its room"
    if (index.find(np.ascontiguousarray(entries["digest"])) != slots).any():
        yield "an object is not found where it stands"


def _about_policy(policy: Policy, slots: Ints, rooms: Ints) -> Iterator[str]:
    if not np.array_equal(np.sort(policy.members()), np.sort(slots)):
        yield "the policy has other members than the index"
    if policy.count != len(slots) or policy.bytes != int(rooms.sum()):
        yield "the policy counts wrong"
    if (policy.sizes[slots] != rooms).any():
        yield "the policy knows wrong sizes"


def _about_bytes(extents: Extents, starts: Ints, rooms: Ints) -> Iterator[str]:
    """Objects, reservations, what waits for readers, and holes are the pool, with no gap."""
    order = np.argsort(starts)
    ends = (starts + rooms)[order]
    if (np.append(0, ends) != np.append(starts[order], extents.capacity)).any():
        yield "bytes of the pool belong to two, or to nobody"
    if int(extents.holes()[1].sum()) != extents.free:
        yield "free bytes are counted wrong"


def _about_reservations(ledger: LedgerLike, rooms: Ints) -> Iterator[str]:
    if ledger.reserved + ledger.quarantined != int(rooms.sum()):
        yield "bytes of reservations are counted wrong"
