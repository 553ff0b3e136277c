"""What the log of an SSD tier reaches of what plain loops past the page cache reach, in turns."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import msgspec
import numpy as np

from ...store.ssd.disk import Aligned
from ...store.ssd.log import SEGMENT_BYTES, Log, SegmentFacts
from ...store.ssd.record import Rows, Verdict, new_rows, offset_of, segment_of
from ...store.ssd.segment import index_of, path_of
from ...store.table import Ints, Words

__all__ = ["SsdResult", "SsdRow", "measure_ssd"]

MIB = 1 << 20
VALUE = MIB
BATCH = 8  # values that are appended, or read, by one call
REQUEST = 4 * MIB  # of plain loops
READS = 24  # a round
OWNER = "bench"


class SsdRow(msgspec.Struct, frozen=True):
    """Medians over rounds.

    ours, plain  10^9 bytes a second
    of_plain     the median of the rounds' own ratios
    wanted       of it, at least
    verified     all bytes were right
    """

    name: str
    ours: float
    plain: float
    of_plain: float
    wanted: float
    verified: bool


class SsdResult(msgspec.Struct, frozen=True):
    """direct: past the page cache, both ours and plain; else most figures are of memory."""

    folder: str
    direct: bool
    bytes: int
    rows: list[SsdRow]


class Round:
    """Seconds that as many bytes took."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.ours: list[float] = []
        self.plain: list[float] = []

    def row(self, name: str, wanted: float, verified: bool) -> SsdRow:
        ratios = [plain / ours for ours, plain in zip(self.ours, self.plain, strict=True)]
        speeds = (self.size / median(taken) / 1e9 for taken in (self.ours, self.plain))
        ours, plain = (round(speed, 3) for speed in speeds)
        return SsdRow(name, ours, plain, round(median(ratios), 3), wanted, verified)


def measure_ssd(folder: Path, size: int, segment: int = SEGMENT_BYTES) -> SsdResult:
    """Append, read and scan `size` bytes in a new folder below `folder`, which is removed again.

    segment  bytes of one, at least 11 MiB; a round is about one

    The disk has to have room for twice as many. Blocks; DeviceError, UsageError as Log.
    """
    with tempfile.TemporaryDirectory(prefix="kvferry-bench-", dir=folder) as made:
        ground = Ground(Path(made), max(1, size // segment), segment)
        with ground.opened() as log:
            direct = log.direct
            rows = [ground.append(log), ground.read_on(log), ground.read_one(log)]
        rows.append(ground.scan())
        return SsdResult(str(folder), direct, ground.rounds * segment, rows)


class Ground:
    """A log, and beside it plain files with as many bytes. A round is a segment."""

    def __init__(self, folder: Path, rounds: int, segment: int) -> None:
        self.rounds = rounds
        self._segment = segment
        self._log = folder / "log"
        self._plain = folder / "plain"
        self._plain.mkdir()
        values = segment // VALUE - 2  # heads and rows need some room, too
        self._batches = values // BATCH
        self._sent = Aligned(BATCH * VALUE)
        self._sent.bytes[:] = np.random.default_rng(1).integers(0, 256, BATCH * VALUE, np.uint8)
        self._got = Aligned(BATCH * VALUE)
        self._rows: list[tuple[Rows, Ints]] = []

    @property
    def _bytes(self) -> int:
        return self._batches * BATCH * VALUE

    @contextmanager
    def opened(self) -> Iterator[Log]:
        with Log(self._log, OWNER, segment_bytes=self._segment) as log:
            for _ in log.rows():
                pass
            yield log

    def append(self, log: Log) -> SsdRow:
        found = Round(self._bytes)
        addresses = _addresses(self._sent)
        for number in range(self.rounds):
            found.plain.append(_timed(partial(self._write, number)))
            found.ours.append(_timed(lambda: self._append(log, addresses)))
        return found.row("append", 0.7, True)

    def read_on(self, log: Log) -> SsdRow:
        """One record behind the other."""
        found = Round(self._bytes)
        verified = True
        for number in range(self.rounds):
            mine = self._rows[number * self._batches : (number + 1) * self._batches]
            found.plain.append(_timed(partial(self._read, self._file(number), self._bytes)))
            begin = time.perf_counter()
            for rows, places in mine:
                verified &= self._fetch(log, rows, places)
            found.ours.append(time.perf_counter() - begin)
        return found.row("read on", 0.7, verified)

    def read_one(self, log: Log) -> SsdRow:
        """A record anywhere: by the time one takes. Plain: as many bytes that are aligned."""
        found = Round(VALUE)
        random = np.random.default_rng(2)
        verified = True
        for number in range(READS):
            rows, places = self._rows[int(random.integers(len(self._rows)))]
            one = slice(number % BATCH, number % BATCH + 1)
            (segment,) = segment_of(places[one])
            at = int(offset_of(places[one])[0]) // VALUE * VALUE
            path = self._file(int(segment) % self.rounds)
            found.plain.append(_timed(partial(self._read, path, VALUE, at % self._bytes)))
            begin = time.perf_counter()
            verified &= self._fetch(log, rows[one], places[one])
            found.ours.append(time.perf_counter() - begin)
        return found.row("read one", 1 / 1.5, verified)

    def scan(self) -> SsdRow:
        """Opening without indices."""
        with self.opened() as log:
            segments = log.segments()
        total = sum(each.bytes for each in segments)
        found = Round(total)
        for _ in range(3):
            for each in segments:
                index_of(self._log, each.number).unlink(missing_ok=True)
            found.plain.append(_timed(partial(self._read_all, segments)))
            begin = time.perf_counter()
            with Log(self._log, OWNER, segment_bytes=self._segment) as log:
                count = sum(len(rows) for rows, _ in log.rows())
                found.ours.append(time.perf_counter() - begin)
        return found.row("scan", 0.7, count == BATCH * len(self._rows))

    def _append(self, log: Log, addresses: Words) -> None:
        for _ in range(self._batches):
            rows = new_rows(BATCH)
            rows["length"] = VALUE
            self._rows.append((rows, log.append(rows, addresses)))
        log.seal()

    def _fetch(self, log: Log, rows: Rows, places: Ints) -> bool:
        lengths, crcs = (np.ascontiguousarray(rows[name]) for name in ("length", "crc32c"))
        verdicts = log.read(places, lengths, crcs, _addresses(self._got)[: len(rows)])
        return bool((verdicts == Verdict.OK).all())

    def _read_all(self, segments: list[SegmentFacts]) -> None:
        for each in segments:
            self._read(path_of(self._log, each.number), each.bytes)

    def _file(self, number: int) -> Path:
        return self._plain / str(number)

    def _write(self, number: int) -> None:
        fd = os.open(self._file(number), os.O_WRONLY | os.O_CREAT | _direct(self._plain), 0o600)
        for at in range(0, self._bytes, REQUEST):
            begin = at % len(self._sent)
            os.pwrite(fd, self._sent.bytes[begin : begin + REQUEST], at)
        os.fdatasync(fd)
        os.close(fd)

    def _read(self, path: Path, size: int, start: int = 0) -> None:
        fd = os.open(path, os.O_RDONLY | _direct(self._plain))
        for at in range(start, start + size, REQUEST):
            os.preadv(fd, [self._got.bytes[: min(REQUEST, size)]], at)
        os.close(fd)


def _direct(folder: Path) -> int:
    """O_DIRECT, where the file system has it."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT))
    except OSError:
        return 0
    return os.O_DIRECT


def _addresses(memory: Aligned) -> Words:
    return memory.address + np.arange(0, BATCH * VALUE, VALUE, dtype=np.uint64)


def _timed(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin
