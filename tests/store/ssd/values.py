"""Values that follow from their keys, appended to a log and looked for in it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kvferry.store.ssd.log import Log
from kvferry.store.ssd.opening import Found
from kvferry.store.ssd.record import GONE, VALUE, Rows, Verdict, new_rows

__all__ = ["LENGTHS", "OWNER", "append", "bury", "keys_of", "open_log", "value", "verdicts"]

OWNER = "tenant@machine"
LENGTHS = (0, 1, 63, 64, 100, 4000, 4096, 9000, 20000)
SEGMENT, RUN = 16 * 4096, 4 * 4096


def value(key: int) -> NDArray[np.uint8]:
    return np.random.default_rng(key).integers(0, 256, LENGTHS[key % len(LENGTHS)], np.uint8)


def open_log(folder: Path, **settings: object) -> tuple[Log, list[Found]]:
    """A log of small segments, and all that it found."""
    given = {"segment_bytes": SEGMENT, "run_bytes": RUN, **settings}
    log = Log(folder, OWNER, **given)  # type: ignore[arg-type]
    return log, list(log.rows())


def append(log: Log, keys: Iterable[int]) -> Found:
    keys = list(keys)
    values = [value(key) for key in keys]
    rows = new_rows(len(keys))
    rows["digest"][:, 0] = keys
    rows["digest"][:, 1] = 7
    rows["length"] = [len(each) for each in values]
    rows["attrs"], rows["expires"] = rows["digest"][:, 0] + 1, rows["digest"][:, 0] + 2
    addresses = np.array([each.ctypes.data for each in values], np.uint64)
    return Found(rows, log.append(rows, addresses))


def bury(log: Log, keys: Iterable[int]) -> Found:
    keys = list(keys)
    rows = new_rows(len(keys), GONE)
    rows["digest"][:, 0] = keys
    return Found(rows, log.append(rows, np.zeros(len(keys), np.uint64)))


def keys_of(found: Iterable[Found]) -> list[tuple[int, bool]]:
    """Keys, and whether there is a value, in order."""
    return [
        (int(row["digest"][0]), bool(row["kind"] == VALUE)) for each in found for row in each.rows
    ]


def verdicts(log: Log, rows: Rows, places: NDArray[np.int64]) -> list[Verdict]:
    """Of reading these; asserts that what is OK is what was written."""
    which = rows["kind"] == VALUE
    lengths, crcs = (np.ascontiguousarray(rows[name][which]) for name in ("length", "crc32c"))
    targets = [np.full(int(length) + 64, 9, np.uint8) for length in lengths]
    addresses = np.array([each.ctypes.data for each in targets], np.uint64)
    answers = [Verdict(each) for each in log.read(places[which], lengths, crcs, addresses)]
    for row, target, answer in zip(rows[which], targets, answers, strict=True):
        if answer is Verdict.OK:
            wanted = value(int(row["digest"][0]))
            assert (target[: len(wanted)] == wanted).all()
            assert len(wanted) == row["length"]
        assert (target[int(row["length"]) :] == 9).all()
    return answers
