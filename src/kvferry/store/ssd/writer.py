"""Writes behind: the one thread that appends, and that makes room before it does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np

from ... import log as logs
from ...errors import DeviceError, Error
from ..answers import Cause, Digests
from ..catalog import Catalog
from ..table import Ints, Words
from .behind import Behind, Load
from .log import Log, SegmentFacts
from .record import BLOCK, GONE, ROW, VALUE, Rows, Verdict, new_rows
from .shelf import Records, footprints
from .wall import walls_of

__all__ = ["Writer"]

logger = logs.get("kvferry.store")

TICK = 0.1  # seconds after which it looks for what came, also when nobody wakes it
PATIENCE = (0.1, 0.2, 0.5, 1.0, 2.0)  # seconds that it pauses after a failure, the last ever again
IDLE = 4 * BLOCK  # bytes that a run may take beside its records

NO_WORDS = np.zeros(0, np.uint64)

Clocks = Callable[[], tuple[int, int]]  # nanoseconds: since the machine began, and since 1970


class Writer:
    """Thread-safe but for `run`, which is the thread's.

    lock     of the catalog and of what is written behind; never held while the disk is waited for
    pool     address of the memory that objects lie in
    size     bytes that segments may take on the disk
    segment  bytes of one
    run      bytes that are written in one go: so much of the pool is kept from others meanwhile
    """

    def __init__(
        self,
        lock: AbstractContextManager[object],
        catalog: Catalog,
        behind: Behind,
        log: Log,
        clocks: Clocks,
        *,
        pool: int,
        size: int,
        segment: int,
        run: int,
    ) -> None:
        self._lock, self._catalog, self._behind, self._log = lock, catalog, behind, log
        self._clocks = clocks
        self._pool, self._size, self._segment, self._run = np.uint64(pool), size, segment, run
        self._wake = threading.Event()
        self._over = False
        self._failures = 0
        self._idle = False  # nothing was left to be written when it looked last
        self.changed = threading.Condition()  # told whenever something was written, or was not
        self.written = self.evicted = self.bytes = 0  # records and their bytes, since the beginning

    # ---- the thread ----

    def run(self) -> None:
        """Until `stop`."""
        while not self._over:
            try:
                busy = self.step()
                self._failures = 0
            except Error as error:
                busy = False
                self._note(error)
            except Exception:
                busy = False
                logger.exception("writing behind failed")
                self._failures += 1
            with self.changed:
                self._idle = not busy and not self._failures
                self.changed.notify_all()
            if not busy:
                self._wake.wait(self._pause())
                self._wake.clear()

    def stop(self) -> None:
        self._over = True
        self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    @property
    def paused(self) -> bool:
        """Did the disk refuse what was written last?"""
        return self._failures > 0

    def settle(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait until this is so, as whatever is written may make it; False: it did not come."""
        self._wake.set()
        with self.changed:
            return self.changed.wait_for(lambda: done() or self._over, seconds) and done()

    @property
    def idle(self) -> bool:
        """Is all written that came until the writer looked last?"""
        return self._idle

    # ---- steps ----

    def step(self) -> bool:
        """Write once; False: there was nothing. Raises what a log raises; then nothing is lost that
        is in memory still."""
        now, _ = self._clocks()
        with self._lock:
            load = self._behind.take(self._run, self._catalog.moments(), now)
            crowded = self._behind.crowded
        try:
            if crowded:
                self._empty_one()
            if not len(load.gone) and not len(load.entries):
                return crowded or (self._used() > self._size and self._empty_one())
            self._put(load)
        except BaseException:
            with self._lock:
                self._behind.failed(load)
            raise
        return True

    def _put(self, load: Load) -> None:
        """A load onto the disk, with room for it made before."""
        rows = self._rows(load.gone, load.records)
        offsets = load.entries["offset"].astype(np.uint64)
        addresses = np.concatenate((np.zeros(len(load.gone), np.uint64), offsets + self._pool))
        self._make_room(_bytes(rows))
        places = self._append(rows, addresses)
        gone, crcs = len(load.gone), rows["crc32c"].astype(np.uint64)
        with self._lock:
            self._behind.written(load, places[:gone], places[gone:], crcs[gone:])
        self.written += len(load.entries)
        self.bytes += int(load.records.lengths.sum())

    def _append(self, rows: Rows, addresses: Words) -> Ints:
        """A full disk gives as much as it has: old segments leave, until there is room or none."""
        while True:
            try:
                return self._log.append(rows, addresses)
            except DeviceError as error:
                if error.cause != "ssd_full" or not self._give_up_one():
                    raise

    def _rows(self, gone: Digests, records: Records) -> Rows:
        now, wall = self._clocks()
        rows = np.concatenate((new_rows(len(gone), GONE), new_rows(len(records.slots), VALUE)))
        rows["digest"] = np.concatenate((gone, records.digests))
        values = rows[len(gone) :]
        values["length"], values["attrs"] = records.lengths, records.attrs
        values["expires"] = walls_of(records.moments, now, wall)
        return rows

    # ---- room ----

    def _make_room(self, needed: int) -> None:
        """Segments leave until so many bytes fit, with another segment to write into what is worth
        it of the next that leaves."""
        while self._used() + needed + self._segment > self._size and self._empty_one():
            pass

    def _used(self) -> int:
        """Segments, and the indices beside them."""
        facts = self._log.segments()
        rows = self._behind.shelf.segments.rows * ROW.itemsize
        return sum(each.bytes for each in facts) + len(facts) * BLOCK + rows

    def _empty_one(self) -> bool:
        """One segment leaves; False: there is none."""
        sealed = self._sealed()
        if not sealed:
            return False
        numbers = np.array([each.number for each in sealed], np.int64)
        sizes = np.array([each.bytes for each in sealed], np.int64)
        with self._lock:
            number, sparse = self._behind.shelf.segments.victim(numbers, sizes)
        try:
            self._save_from(number, sparse, oldest=number == numbers.min())
        except DeviceError as error:
            if error.cause != "ssd_full":
                raise
            return self._give_up_one()
        self._drop(number)
        return True

    def _give_up_one(self) -> bool:
        """The oldest segment leaves as it is, since nothing can be written before."""
        sealed = [each.number for each in self._log.segments() if each.sealed]
        self._behind.ample = False  # who knows how large the disk is
        if sealed:
            self._drop(min(sealed))
        return bool(sealed)

    def _sealed(self) -> list[SegmentFacts]:
        """Segments that are not written to any more; the last one is among them, if there is no
        other."""
        facts = self._log.segments()
        if facts and not any(each.sealed for each in facts):
            self._log.seal()
            facts = self._log.segments()
        return [each for each in facts if each.sealed]

    def _save_from(self, number: int, sparse: bool, oldest: bool) -> None:
        """What is worth it of a segment that leaves is written once more; what lies in memory, too,
        is written from there when its turn comes."""
        most = self._segment // 2
        for part in self._behind.shelf.segments.parts(number):
            with self._lock:
                records, void = self._behind.clear(number, sparse, oldest, most, part)
            most -= int(footprints(records.lengths).sum())
            self._save(records, void)

    def _save(self, records: Records, void: Digests) -> None:
        """As much at a time as a run takes."""
        ends = records.lengths.cumsum()
        while len(records.slots) or len(void):
            some = max(int(ends.searchsorted(np.uint64(self._run), "right")), 1)
            self._rewrite(void, records.some(np.arange(min(some, len(records.slots)))))
            records, void = records.some(np.arange(some, len(records.slots))), void[:0]
            ends = records.lengths.cumsum()

    def _rewrite(self, void: Digests, records: Records) -> None:
        """What cannot be read is void from now on."""
        memory = np.empty(int(records.lengths.sum()), np.uint8)
        starts = records.lengths.cumsum() - records.lengths
        addresses = np.uint64(memory.ctypes.data) + starts
        crcs = records.crcs.astype(np.uint32)
        well = self._log.read(records.places, records.lengths, crcs, addresses) == Verdict.OK
        void = np.concatenate((void, records.digests[~well]))
        records, addresses = records.some(well), addresses[well]
        nowhere = np.zeros(len(void), np.uint64)
        places = self._log.append(self._rows(void, records), np.concatenate((nowhere, addresses)))
        with self._lock:
            self._behind.shelf.bury(places[: len(void)], void)
            self._behind.moved(records, places[len(void) :])

    def _drop(self, number: int) -> None:
        """The file first: as long as it is there, nobody may store anything else for its keys."""
        with self._lock:
            self._behind.going = number
        self._log.drop(number)
        for part in self._behind.shelf.segments.parts(number):
            with self._lock:
                lost = self._behind.empty(number, part)
                self._catalog.note(lost, Cause.EVICTED)
            self.evicted += len(lost)
        with self._lock:
            self._behind.shelf.segments.forget(number)

    # ---- failures ----

    def _note(self, error: Error) -> None:
        if not self._failures:
            logger.warning("the SSD tier pauses: %s", error)
        self._failures += 1

    def _pause(self) -> float:
        failures = self._failures
        return PATIENCE[min(failures, len(PATIENCE)) - 1] if failures else TICK


def _bytes(rows: Rows) -> int:
    """That a run of these takes at most."""
    return int(rows["length"].sum()) + len(rows) * (rows.itemsize + 64) + IDLE
