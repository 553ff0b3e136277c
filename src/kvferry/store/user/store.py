"""The store as a user sees it: keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from .. import messages as m
from ..answers import Answer, Pin
from ..codecs.codec import Codec
from ..table import Ints
from .buffers import flat, flats, writable
from .copying import copies_at
from .draft import Draft, sizes_of
from .found import Key, Watch
from .keys import asked, blame, digests_of, same
from .lease import Lease, span_of
from .life import Life
from .pending import Pending
from .pieces import Buffers, Numbers, Pieces, in_pieces, offsets_in
from .placing import more, place
from .reading import Reading, Why
from .removal import remove_elsewhere
from .results import Results, error_of
from .settling import settled
from .targets import Parts, Whole
from .values import Values

__all__ = ["Store"]

# As plain numbers, which arrays take faster.
STORED, PRESENT, FOUND = int(Answer.STORED), int(Answer.PRESENT), int(Answer.FOUND)
NODE_GONE = int(Answer.NODE_GONE)
NO_BYTES = np.uint64(0)


class Store(Life):
    """Values by key, in the memory of this host's node and of nodes elsewhere. Thread-safe.

    address  None: this process is the node. "unix:///path": the node that listens there.
             "kv://host:port": a node elsewhere, asked beside the one of this host if there is one
    options    of its engine; by default from the environment
    path       that bytes take to nodes elsewhere, as Engine.connect takes it
    namespace  text: keys are those of this namespace and of this codec alone
    codec      what is stored in place of the values, such as codecs.Zstd(); then there are no views

    The rest is for an embedded node alone:

    size     bytes of its pool, a number or "1GiB"
    policy   who leaves a full pool first: "lru", "s3fifo" or "prefix"
    objects  how many there may be; by default as many as there are of 8 KiB
    limits   watermarks and others, see Limits
    listen   addresses at which other processes and hosts may use it
    peers    addresses of other nodes, which are asked for what is not here
    directory  addresses of the directories that know which nodes have what, or a Directed with more
               about it; asked instead of peers
    ssd      folder of its own for what does not fit into the pool, and for what outlives the node
    ssd_size bytes that it may take there

    A key is text or bytes. A value is a contiguous buffer, of no bytes at least; it is stored whole
    or not at all, and never changes. Every call may raise ClosedError after `close`, and UsageError
    for what is no key or no buffer, before anything is done. A forked child is another user: its
    first call joins anew, and views of its parent are not its own. An embedded node stays with the
    process that made it.
    """

    def __new__(cls, *_: Any, codec: Codec | None = None, **__: Any) -> Store:
        """With a codec it is a Coded store."""
        if codec is None:
            return super().__new__(cls)
        from .coded import Coded  # which is a store

        return super().__new__(Coded)

    # ---- one key ----

    def put(
        self,
        key: Key,
        value: Any,
        *,
        ttl: float | None = None,
        parent: Key | None = None,
        replicas: int = 1,
    ) -> Answer:
        """Store a value: Answer.STORED, or PRESENT when the key was there, and stays as it was.

        ttl     seconds after which it is gone
        parent  the key without which this one is of no use, for the policy "prefix"
        replicas  how many nodes should have it, 4 at most; see put_batch

        Blocks until the node has answered. Raises Full with the cause why there is no room (full,
        leased, pinned, fragmented, index_full, draining), UsageError (too_large), PeerError and
        Timeout: it may be stored or not, and doing it again is harmless.
        """
        if replicas != 1:
            parents = None if parent is None else [parent]
            (stored,) = self.put_batch([key], [value], ttl=ttl, parents=parents, replicas=replicas)
            if stored > PRESENT:
                raise error_of(stored, self._own.address)
            return stored
        home, writer = self._writing()
        above = None if parent is None else [parent]
        values = Values.of(home.joined.secret, [key], [value], ttl, above)
        if home.reader is not None and home.reader.exists(values.digests)[0] == _core.HIT:
            return Answer.PRESENT
        answer = writer.put_one(values, int(values.lengths[0]))
        if answer > PRESENT:
            refused = np.array([answer], np.uint8)
            more(self._elsewhere, values, refused)
            answer = int(refused[0])
        if answer > PRESENT:
            raise error_of(Answer(answer), home.name)
        if self._naming.wanted:
            self._naming.note((key,))
        return Answer(answer)

    def get(self, key: Key) -> bytes | None:
        """A copy of the value, or None: it is not there. Raises what get_into raises."""
        status, block = self._block(key)
        if block is not None:
            with block as memory:
                return bytes(memory)
        if status == _core.ABSENT:
            found, copies = self._reading.copies_elsewhere([key], None)
        else:
            found, copies = asked(self._reading.copies, [key], None)
        if found.answers[0] in (Answer.FOUND, Answer.ABSENT):
            return copies[0]
        raise error_of(Answer(int(found.answers[0])), self._own.address)

    def get_into(self, key: Key, out: Any) -> int | None:
        """Copy the value to the beginning of a writable buffer: its bytes, or None: not there.

        Where it is in this host's memory nobody is asked. Raises UsageError (too_small, nothing was
        written), PeerError (node_gone, corrupt, changing) and Full (busy); after these the buffer
        is unspecified.
        """
        self._check()
        home = self._own.now
        if home is not None and home.reader is not None:
            try:
                status, length = home.reader.get(key, out)
            except (TypeError, ValueError, BufferError):
                pass  # said more clearly below
            else:
                if status == _core.HIT:
                    return length
                if status == _core.ABSENT and not self._elsewhere:
                    return None
        found = asked(self._reading.into, [key], [writable(flat(out))], None)
        answer = Answer(int(found.answers[0]))
        if answer is Answer.FOUND:
            return int(found.lengths[0])
        if answer is Answer.ABSENT:
            return None
        raise error_of(answer, self._own.address)

    def view(self, key: Key) -> AbstractContextManager[memoryview | None]:
        """The value where it lies, read-only, or None: `with store.view(key) as block:`.

        It stays while the block is entered and any buffer made from it is in use; leaving the block
        while there is one raises BufferError, and the value stays until that one is released. A
        value of another host is copied here first. Raises what get_into raises.
        """
        status, block = self._block(key)
        if block is not None:
            return block
        if status == _core.ABSENT and not self._elsewhere:
            return nullcontext(None)
        value = Store.get(self, key)  # as it is stored
        return nullcontext(None if value is None else memoryview(value))

    def exists(self, key: Key, *, lease: float | None = None) -> bool:
        """Is it there? Raises PeerError when its node is gone and nobody else has it.

        lease  see exists_batch
        """
        return bool(self.exists_batch([key], lease=lease)[0])

    def remove(self, key: Key, *, force: bool = False) -> bool:
        """False: it was not there. Raises Full (leased) when a lease keeps it, and PeerError
        (node_gone) when a node that may have it did not answer; see remove_batch."""
        answer = self.remove_batch([key], force=force)[0]
        if answer in (Answer.REMOVED, Answer.ABSENT):
            return answer is Answer.REMOVED
        raise error_of(answer, self._own.address)

    def why(self, key: Key, *, tenant: str | None = None) -> Why:
        """Why a key is not there, as far as it is remembered.

        tenant  whose key is meant; Cause.OTHER_TENANT where that is not this user's own, whatever
                there is. None: this user's
        """
        return asked(self._checked().why, [key], tenant)

    # ---- many keys ----

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
        """Store many: an Answer each, as put gives or raises them.

        values  buffers; or Pieces, or lists of buffers, whose bytes are stored one behind the other
        prefer  addresses of nodes that should have them rather than the own one, in this order

        With `replicas` above 1 what was STORED is put to other nodes, too, which the directory
        chooses. How many have each then stands in `replicas` of the results; fewer than were asked
        for is no failure, the directory has the rest made up for. Raises UsageError (replicas).
        What the own node refuses is put to another one, where a directory knows one that takes it.
        """
        home, writer = self._writing()
        rows = Values.of(home.joined.secret, keys, values, ttl, parents).wanted(replicas, home)
        new = np.arange(len(keys))
        if home.reader is not None:
            new = np.flatnonzero(home.reader.exists(rows.digests) != _core.HIT)
        answers, achieved = place(self._elsewhere, writer.put, rows, new, replicas, prefer)
        if self._naming.wanted:
            self._naming.note(keys)
        return Results(answers, np.where(answers == STORED, rows.lengths, NO_BYTES), achieved)

    def get_batch(self, keys: Sequence[Key]) -> list[bytes | None]:
        """A copy of each value, None where there is none, for whatever reason."""
        return asked(self._checked().copies, keys, None)[1]

    def get_batch_into(self, keys: Sequence[Key], outs: Buffers) -> Results:
        """Fill each buffer with the value of its key: FOUND, ABSENT, TOO_SMALL ... each.

        outs  buffers; or Pieces, or lists of buffers, which are filled in order

        One message to each node that is asked at all. Buffers of keys that are not FOUND are
        unspecified, of ABSENT and TOO_SMALL as they were.
        """
        return self._get_batch_into(keys, outs, None)

    def get_ranges(
        self, keys: Sequence[Key], pieces: Buffers, offsets: Numbers
    ) -> tuple[Results, NDArray[np.int64]]:
        """Parts of values: piece j of row i is filled with the bytes of value i from its offset on.

        pieces   a row for each key: Pieces, or lists of buffers as Pieces.of takes them
        offsets  one a piece, in one row of all or in rows as of the pieces

        FOUND, ABSENT ... each, whose lengths are those of the whole values; and how many bytes each
        piece got, -1 where the value has not so many, or was not found: it is untouched then, or
        unspecified after a failure. Raises UsageError and RightsError before anything is read.
        """
        reading = self._checked()
        wanted = pieces if isinstance(pieces, Pieces) else Pieces.of(pieces, writable=True)
        same(len(keys), len(wanted))
        parts = Parts(wanted.checked(), offsets_in(wanted, offsets))
        return Results(*asked(reading.into_pieces, keys, parts, None)), parts.moved

    def draft(
        self,
        keys: Sequence[Key],
        sizes: Sequence[int] | NDArray[np.integer[Any]],
        *,
        ttl: float | None = None,
    ) -> Draft:
        """Places at the own node for values of so many bytes, to be written in parts and committed:
        see Draft. Blocks until the node has answered. Raises UsageError (sizes), and what putting
        raises."""
        home, writer = self._writing()
        rows = Values.unwritten(home.joined.secret, keys, sizes_of(sizes, len(keys)), ttl)
        new = np.flatnonzero(home.exists(keys) != FOUND)
        return Draft(home, writer, rows, new, self._check, partial(self._drafted, keys))

    def exists_batch(self, keys: Sequence[Key], *, lease: float | None = None) -> NDArray[np.bool_]:
        """Which are there? Raises PeerError when the own node is gone and one is found nowhere.

        lease  seconds that those stay that are there, as long as the node permits at most. It
               belongs to nobody, and ends by itself. What lies on the disk is brought in; False of
               what there is no room for. Raises UsageError (lease) for what is no time
        """
        reading = self._checked()
        if lease is None:
            answers = asked(reading.exists, keys)
        else:
            answers = asked(reading.keep, keys, span_of(lease))
        if NODE_GONE in answers.tobytes():
            raise error_of(Answer.NODE_GONE, self._own.address)
        found: NDArray[np.bool_] = answers == FOUND
        return found

    def remove_batch(self, keys: Sequence[Key], *, force: bool = False) -> Results:
        """REMOVED, ABSENT, LEASED or NODE_GONE each, at the user's own node and at those of which
        the directory says that they have it. NODE_GONE: one of these did not answer, and may have
        it still; doing it again is harmless.

        force  leases keep nothing; what is being read, or viewed, keeps its bytes until it is not
        """
        own = self._told(keys, lambda digests: m.Remove(digests, force))
        answers = remove_elsewhere(self._elsewhere, keys, own.codes.copy(), force)
        return Results(answers, own.lengths)

    def copy(self, keys: Sequence[Key], to: str) -> Results:
        """Have the node at the address `to` have these, too: STORED or PRESENT there, ABSENT, or
        why it refuses; NODE_GONE: it does not answer, or who has it does not.

        The nodes that have them copy, the own one or one that the directory names, at their
        `copy_rate`; a copy keeps the time that is left to live. Blocks. Raises UsageError
        (address), RightsError, PeerError when the own node is gone.
        """
        self._writing()
        answers = copies_at(self._own, self._elsewhere, keys, to)
        return Results(answers, np.zeros(len(keys), np.uint64))

    # ---- while others work ----

    def put_batch_async(
        self,
        keys: Sequence[Key],
        values: Buffers,
        *,
        ttl: float | None = None,
        parents: Sequence[Key] | None = None,
        replicas: int = 1,
        prefer: Sequence[str] = (),
    ) -> Pending:
        """The same as put_batch, in a thread of the store. Raises Full when very many wait."""
        self._check()

        def put(pending: Pending) -> Results:
            pending.check()
            return self.put_batch(
                keys, values, ttl=ttl, parents=parents, replicas=replicas, prefer=prefer
            )

        return self._calls.start(put)

    def get_batch_into_async(self, keys: Sequence[Key], outs: Buffers) -> Pending:
        """The same as get_batch_into, in a thread of the store."""
        self._check()

        def get(pending: Pending) -> Results:
            pending.check()
            return self._get_batch_into(keys, outs, pending.watch)

        return self._calls.start(get)

    def settle(self, timeout: float = 1.0, *, alone: bool = True) -> bool:
        """Wait until the directory has acknowledged all that this user put and removed up to now,
        here and at other nodes: then whoever asks it finds that. Many threads share one wait.

        timeout  seconds, at most: False when they are over first, as where no directory leads
        alone    False: not while the directory says that nobody but the own node, and its users, is
                 there to ask

        True at once where there is no directory. Raises PeerError when the own node is gone.
        """
        home = self._both()[0]
        return not home.writes or settled(home, self._elsewhere.touched, timeout, alone)

    # ---- staying ----

    def lease(self, keys: Sequence[Key], seconds: float) -> Lease:
        """Keep objects for some time, as long as the node permits at most: a Lease to renew or to
        give back. Which of them it holds stands in `lease.held`."""
        home = self._both()[0]
        digests = digests_of(keys, home.joined.secret)
        return Lease.of(home, digests, seconds)

    def pin(self, keys: Sequence[Key], pin: Pin = Pin.HARD) -> Results:
        """FOUND or ABSENT each. A soft pin falls when nothing else could leave; Pin.NONE ends it.
        A pin ends with its object, and does not count who pinned."""
        return self._told(keys, lambda digests: m.Keep(digests, int(pin)))

    def group(self, keys: Sequence[Key]) -> Results:
        """FOUND or ABSENT each. Objects of a group leave together."""
        return self._told(keys, lambda digests: m.Group(digests))

    # ---- looking ----

    def names(self) -> Iterator[list[str | bytes]]:
        """What the keys of this namespace are called, page by page, as far as the directory knows
        it: see the directory's `names`. Text where a key is UTF-8. What came or went in the last
        tenth of a second may be missing, or be there still. Raises UsageError (names) where none
        are kept, PeerError (no_directory; changed: begin anew)."""
        self._check()
        return self._naming.names()

    def digests(self, keys: Sequence[Key]) -> list[bytes]:
        """What stands for each key in events of a directory: 16 bytes."""
        raw = digests_of(keys, self._both()[0].joined.secret).tobytes()
        return [raw[at : at + 16] for at in range(0, len(raw), 16)]

    def stats(self) -> dict[str, dict[str, int]]:
        """Figures of the own node: usage, reads, misses by cause, users."""
        return self._both()[0].ask(m.Look(), m.Looked).figures

    # ---- inside ----

    def _checked(self) -> Reading:
        self._check()
        return self._reading

    def _block(self, key: Key) -> tuple[int | None, _core.Block | None]:
        """What this host's memory says of it, and the value where it lies there."""
        self._check()
        home = self._own.now
        if home is None or home.reader is None:
            return None, None
        try:
            return home.block(key)
        except (TypeError, UnicodeEncodeError) as error:
            raise blame([key], error) from None

    def _get_batch_into(self, keys: Sequence[Key], outs: Buffers, watch: Watch) -> Results:
        reading = self._checked()
        same(len(keys), len(outs))
        if isinstance(outs, Pieces):
            return Results(*asked(reading.into_pieces, keys, Whole(outs.checked()), watch))
        home = self._own.now
        if home is not None and home.reader is not None and not isinstance(keys, str):
            try:
                return Results(*reading.into(keys, outs, watch))
            except (TypeError, ValueError, BufferError):
                pass  # of a key or a buffer: said more clearly below
        if in_pieces(outs):
            return self._get_batch_into(keys, Pieces.of(outs, writable=True), watch)
        targets = [writable(each) for each in flats(outs)]
        return Results(*asked(reading.into, keys, targets, watch))

    def _drafted(self, keys: Sequence[Key], rows: Ints) -> None:
        if self._naming.wanted:
            self._naming.note([keys[at] for at in rows.tolist()])

    def _told(self, keys: Sequence[Key], request: Any) -> Results:
        """What the own node answers to a request about keys."""
        home = self._both()[0]
        digests = digests_of(keys, home.joined.secret)
        answers = m.answers_in(home.ask(request(m.column_of(digests)), m.Told).answers)
        m.check_rows(len(digests), answers)
        return Results(answers, np.zeros(len(digests), np.uint64))
