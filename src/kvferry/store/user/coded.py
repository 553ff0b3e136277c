"""A store whose values are stored by a codec."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn

import numpy as np

from ... import _core
from ...errors import UsageError
from ..answers import Answer
from ..codecs.codec import Codec
from ..table import Ints
from .buffers import flat, flats, writable
from .decoding import Copies, Decoding, Into, octets
from .elsewhere import ELSEWHERE
from .found import SAID, Key, Watch
from .keys import asked, same
from .pieces import Buffers, Pieces, in_pieces
from .placing import place
from .results import Results, error_of
from .store import Store
from .values import Values

__all__ = ["Coded"]

# As plain numbers, which arrays take faster.
STORED, PRESENT, ABSENT = int(Answer.STORED), int(Answer.PRESENT), int(Answer.ABSENT)
FOUND, NODE_GONE = int(Answer.FOUND), int(Answer.NODE_GONE)
NO_BYTES = np.uint64(0)


class Coded(Store):
    """Puts encode and gets decode; all else is about keys, and as it is.

    Lengths in Results are those of the values. What is garbled, or was stored by something else, is
    CORRUPT. A batch that is put takes memory for all of it that is new, encoded, at once; when the
    codec refuses one of its values nothing is stored.
    """

    def put(
        self,
        key: Key,
        value: Any,
        *,
        ttl: float | None = None,
        parent: Key | None = None,
        replicas: int = 1,
    ) -> Answer:
        above = None if parent is None else [parent]
        answer = self.put_batch([key], [value], ttl=ttl, parents=above, replicas=replicas)[0]
        if answer > PRESENT:
            raise error_of(answer, self._own.address)
        return answer

    def put_batch(
        self,
        keys: Sequence[Key],
        values: Buffers,
        *,
        ttl: float | None = None,
        parents: Sequence[Key] | None = None,
        replicas: int = 1,
        prefer: Sequence[str] = (),
    ) -> Results:
        home, writer = self._both()
        rows = Values.of(home.joined.secret, keys, values, ttl, parents).wanted(replicas, home)
        self._check_lengths(rows.lengths.tolist())
        answers = np.full(len(keys), PRESENT, np.uint8)
        new: Ints = np.arange(len(keys))
        if home.reader is not None:
            new = np.flatnonzero(home.reader.exists(rows.digests) != _core.HIT)
        achieved = None if replicas == 1 and not prefer else np.ones(len(keys), np.uint8)
        if len(new):
            stored, every = self._encoded(rows, new), np.arange(len(new))
            placed = place(self._elsewhere, writer.put, stored, every, replicas, prefer)
            answers[new], counts = placed
            if achieved is not None and counts is not None:
                achieved[new] = counts
        if self._naming.wanted:
            self._naming.note(keys)
        return Results(answers, np.where(answers == STORED, rows.lengths, NO_BYTES), achieved)

    def get(self, key: Key) -> bytes | None:
        copies = Copies(self._codec, 1)
        self._read_one(key, copies)
        return copies.copies()[0]

    def get_into(self, key: Key, out: Any) -> int | None:
        self._check()
        into = Into(self._codec, [writable(flat(out))])
        self._read_one(key, into)
        return int(into.found.lengths[0]) if into.found.answers[0] == FOUND else None

    def view(self, key: Key) -> AbstractContextManager[memoryview | None]:
        """Raises UsageError (encoded): what lies there is not the value."""
        raise UsageError("no views of what a codec stored: get it", cause="encoded")

    def get_batch(self, keys: Sequence[Key]) -> list[bytes | None]:
        copies = Copies(self._codec, len(keys))
        self._read(keys, copies, None)
        return copies.copies()

    def get_ranges(self, *_: Any, **__: Any) -> NoReturn:
        """Raises UsageError (encoded): what lies there is not the value."""
        raise no_pieces()

    def draft(self, *_: Any, **__: Any) -> NoReturn:
        """Raises UsageError (encoded): a value is encoded as a whole."""
        raise no_pieces()

    # ---- inside ----

    @property
    def _codec(self) -> Codec:
        codec = self._namespace.codec
        assert codec is not None, "who has none is a plain Store"
        return codec

    def _check_lengths(self, lengths: Sequence[int]) -> None:
        for index, length in enumerate(lengths):
            try:
                self._codec.check(length)
            except UsageError as error:
                error.index = index
                raise

    def _encoded(self, rows: Values, which: Ints) -> Values:
        """What is stored of some of them."""
        some, stored = rows.some(which), []
        if isinstance(some.sources, Pieces):
            raise no_pieces()
        for index, source in zip(which.tolist(), some.sources, strict=True):
            try:
                stored.append(self._codec.encode(octets(source)))
            except UsageError as error:
                error.index = index
                raise
        lengths = np.array([len(each) for each in stored], np.uint64)
        return some._replace(sources=stored, lengths=lengths)

    def _read_one(self, key: Key, decoding: Decoding) -> None:
        """Raises what get_into raises."""
        with super().view(key) as stored:
            if stored is None:
                return
            decoding.take(0, stored)
        answer = Answer(int(decoding.found.answers[0]))
        if answer is not Answer.FOUND:
            raise error_of(answer, self._own.address)

    def _get_batch_into(self, keys: Sequence[Key], outs: Buffers, watch: Watch) -> Results:
        self._check()
        same(len(keys), len(outs))
        if isinstance(outs, Pieces) or in_pieces(outs):
            raise no_pieces()
        into = Into(self._codec, [writable(each) for each in flats(outs)])
        self._read(keys, into, watch)
        return Results(*into.found)

    def _read(self, keys: Sequence[Key], decoding: Decoding, watch: Watch) -> None:
        """Where the values lie in this host's memory they are decoded there."""
        self._check()
        left = asked(self._read_here, keys, decoding)
        answers = decoding.found.answers
        missing = bool(left) and all(answers[at] == ABSENT for at in left)
        if not left or (missing and not self._elsewhere):
            return
        wanted = [keys[at] for at in left]
        read = self._reading.copies_elsewhere if missing else self._reading.copies
        found, copies = asked(read, wanted, watch)
        for at, answer, stored in zip(left, found.answers.tolist(), copies, strict=True):
            answers[at] = answer
            if stored is not None:
                decoding.take(at, stored)

    def _read_here(self, keys: Sequence[Key], decoding: Decoding) -> list[int]:
        """Which of them other nodes may still have, or a node whose memory is not mapped here."""
        left = []
        for at, key in enumerate(keys):
            status, block = self._block(key)
            if block is not None:
                with block as stored:
                    decoding.take(at, stored)
                continue
            answer = NODE_GONE if status is None else int(SAID[status])
            decoding.found.answers[at] = answer
            if answer in ELSEWHERE:
                left.append(at)
        return left


def no_pieces() -> UsageError:
    return UsageError("a codec takes and gives whole values, in one buffer", cause="encoded")
