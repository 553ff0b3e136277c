"""What a node with an SSD has open before it begins: the folder, and what lies in it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ... import _core
from ... import log as logs
from ...engine import Engine
from ...errors import UsageError
from ...memory import Region
from ..answers import Digests
from ..table import IndexLike, Ints, Words
from ..witness import Witness
from .behind import Behind
from .disk import Disk
from .identity import owner_name
from .log import SEGMENT_BYTES, Log
from .record import BLOCK, GONE, VALUE, Rows
from .shelf import Shelf, past
from .wall import moments_of

__all__ = ["Setup", "Ssd", "load", "set_up", "ssd_of"]

logger = logs.get("kvferry.store")

INDEX = "store.ssd"
LEAST = 1 << 20  # bytes of a tier
PARTS = 8  # segments that it has at least
MEAN_OBJECT = 32 << 10  # bytes, from which the size of the index follows
LEAST_OBJECTS = 1024
MOST_OBJECTS = 1 << 29
FULLNESS = 0.75  # of an index, up to which it refuses almost no key


class Ssd(NamedTuple):
    """What a node is told of its disk.

    folder  of its own; it is made, if need be
    size    bytes that its files may take
    disk    what writes; None: the os module
    """

    folder: Path
    size: int
    disk: Disk | None = None

    @property
    def segment(self) -> int:
        """Bytes of a segment. A larger value than that stays in memory alone."""
        return min(SEGMENT_BYTES, self.size // PARTS // BLOCK * BLOCK)


def ssd_of(folder: str | Path | None, size: int | None) -> Ssd | None:
    """What a caller named; both or neither. Raises UsageError."""
    if (folder is None) != (size is None):
        raise UsageError("an SSD tier has a folder and a size", cause="ssd_size")
    return None if folder is None or size is None else Ssd(Path(folder), size)


class Setup(NamedTuple):
    ssd: Ssd
    log: Log
    behind: Behind
    lying: _core.Index  # of the shelf, in its region
    region: Region
    lost: Digests  # keys that were there, and can be believed no more


def set_up(
    engine: Engine,
    ssd: Ssd,
    memory: IndexLike,
    pool: int,
    witnesses: Sequence[Witness],
    tenant: str,
    secret: bytes,
    now: int,
    wall: int,
) -> Setup:
    """Open the folder and learn what lies there. Blocks; raises what a Log raises, UsageError for a
    size that is none, NoMemory.

    memory     index of what lies in memory, and `pool` its bytes
    witnesses  of all that comes to the node and leaves it, later on
    secret     by which keys are hashed: whoever has another finds nothing there
    """
    if ssd.size < LEAST:
        raise UsageError(f"an SSD tier of {ssd.size} bytes is none", cause="bad_size")
    objects = min(max(ssd.size // MEAN_OBJECT, LEAST_OBJECTS), MOST_OBJECTS)
    bytes = _core.index_bytes(int(objects / FULLNESS))
    log = Log(ssd.folder, _owner(tenant, secret), segment_bytes=ssd.segment, disk=ssd.disk or os)
    try:
        region = engine.allocate(INDEX, bytes, readonly=True, tenant=tenant)
        index = _core.Index(region.address, region.length, engine.epoch)
        ample = ssd.size >= 2 * pool
        behind = Behind(memory, Shelf(index), ssd.segment - 2 * BLOCK, witnesses, ample)
        for found in log.rows():
            load(behind, found.rows, found.places, now, wall)
        lost = _without_doubt(log, behind.shelf)
    except BaseException:
        log.close()
        raise
    logger.info("%s holds %d objects", ssd.folder, index.count)
    return Setup(ssd, log, behind, index, region, lost)


def _without_doubt(log: Log, shelf: Shelf) -> Digests:
    """What may have been removed since leaves the folder; its keys."""
    numbers = log.doubtful
    if numbers:
        logger.warning("rows of an SSD tier are lost; what is as old leaves: %s", log.damage)
    keys = [np.empty((0, 2), np.uint64)]
    for number in numbers:
        log.drop(number)
        keys.append(_column(shelf.drop(number), "digest"))
    return np.concatenate(keys)


def load(behind: Behind, rows: Rows, places: Ints, now: int, wall: int) -> None:
    """Rows that were found, later ones than any before."""
    gone = rows["kind"] == GONE
    digests = np.ascontiguousarray(rows["digest"])
    behind.shelf.bury(places[gone], digests[gone])
    last = _last_of_each(digests)
    rows, places, digests = rows[last], places[last], digests[last]
    before = behind.shelf.find(digests)
    behind.shelf.forget(before[before >= 0])
    moments = moments_of(_column(rows, "expires"), now, wall)
    over = past(moments, now)
    behind.void.add(digests[over & (rows["kind"] == VALUE)])
    here = ~over & (rows["kind"] == VALUE)
    rows, places, digests = rows[here], places[here], digests[here]
    columns = _column(rows, "length"), _column(rows, "attrs"), moments[here]
    slots = behind.shelf.begin(digests, *columns)
    taken = slots >= 0
    behind.void.add(digests[~taken])
    generations = behind.shelf.read(slots[taken]).generations
    crcs = rows["crc32c"][taken].astype(np.uint64)
    behind.shelf.land(slots[taken], generations, places[taken], crcs)


def _last_of_each(digests: Words) -> Ints:
    """Rows of which no later one has the same digest."""
    order = np.lexsort((digests[:, 1], digests[:, 0]))  # stable: among equals as they came
    sorted_ = digests[order]
    ends = np.ones(len(order), np.bool_)
    ends[:-1] = (sorted_[1:] != sorted_[:-1]).any(axis=1)
    return np.sort(order[ends])


def _owner(tenant: str, secret: bytes) -> str:
    mark = hashlib.blake2b(b"kvferry ssd", key=secret, digest_size=8).hexdigest()
    return owner_name(f"{tenant}/{mark}")


def _column(rows: Rows, name: str) -> Words:
    return np.ascontiguousarray(rows[name])
