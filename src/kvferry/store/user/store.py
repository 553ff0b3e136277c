"""The store as a user sees it: keys and values."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import _core, config
from ...engine import Engine
from ...errors import (
    ClosedError,
    Error,
    ForkedError,
    PeerError,
    UsageError,
)
from .. import messages as m
from ..answers import Answer, Pin
from ..codecs.codec import Codec
from ..directory.directed import Directed
from ..records import Limits
from . import alive
from .addresses import bytes_in, places_of
from .buffers import flat, flats, writable
from .elsewhere import Elsewhere
from .embed import embed, mistake
from .found import Key, Watch
from .home import Home
from .keys import asked, blame, digests_of, same
from .lease import Lease
from .namespace import Namespace
from .node_at import NodeAt
from .pending import Pending, Queue
from .reading import Reading, Why
from .removal import remove_elsewhere
from .results import Results, error_of
from .through import home_at, home_in_life
from .values import Values
from .writer import Writer

__all__ = ["Store"]

LIMITS = Limits()

# As plain numbers, which arrays take faster.
STORED, PRESENT, FOUND = int(Answer.STORED), int(Answer.PRESENT), int(Answer.FOUND)
NODE_GONE = int(Answer.NODE_GONE)
NO_BYTES = np.uint64(0)


class Store:
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

    def __init__(
        self,
        address: str | None = None,
        *,
        options: config.Options | None = None,
        path: str = "auto",
        namespace: str | None = None,
        codec: Codec | None = None,
        size: int | str = "1GiB",
        policy: str = "lru",
        objects: int | None = None,
        limits: Limits = LIMITS,
        listen: Sequence[str] = (),
        peers: Sequence[str] = (),
        directory: Sequence[str] | Directed = (),
        ssd: str | Path | None = None,
        ssd_size: int | str | None = None,
    ) -> None:
        self._options = options or config.from_environment()
        self._path = path
        self._namespace = Namespace(namespace, codec).checked()
        self._asked = places_of(address, self._options)
        if address is not None and (listen or peers or directory or ssd):
            text = "listen, peers, directory and ssd are an embedded node's"
            raise UsageError(text, cause="not_embedded")
        bytes_in(size)  # raises where it is none
        self._node = partial(
            embed,
            namespace=self._namespace,
            size=size,
            ssd=ssd,
            ssd_size=ssd_size,
            policy=policy,
            objects=objects,
            limits=limits,
            peers=tuple(peers),
            directory=directory if isinstance(directory, Directed) else Directed(tuple(directory)),
        )
        self._listen = tuple(listen)
        self._lock = threading.Lock()
        self._over: Error | None = None
        self._begin()
        alive.began(self)
        try:
            self._own.home  # noqa: B018  whoever asks for a store wants to know that it is there
        except PeerError as gone:
            self.close()
            raise mistake(gone) from None
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """As a user that nobody knows yet."""
        self._inherited = False  # from a parent process, and not begun here yet
        self._engine = Engine(*self._listen, options=self._options)
        self._own = NodeAt(
            self._asked.own or self._engine.name, self._joining, self._options.call_timeout
        )
        self._elsewhere = Elsewhere(self._engine, self._own, self._asked.others, self._at)
        self._reading = Reading(self._own, self._elsewhere)
        self._queue: Queue | None = None

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
            raise error_of(Answer(answer), home.name)
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

    def exists(self, key: Key) -> bool:
        """Is it there? Raises PeerError when its node is gone and nobody else has it."""
        return bool(self.exists_batch([key])[0])

    def remove(self, key: Key) -> bool:
        """False: it was not there. Raises Full (leased) when a lease keeps it, and PeerError
        (node_gone) when a node that may have it did not answer; see remove_batch."""
        answer = self.remove_batch([key])[0]
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
        values: Sequence[Any],
        *,
        ttl: float | None = None,
        parents: Sequence[Key] | None = None,
        replicas: int = 1,
    ) -> Results:
        """Store many: an Answer each, as put gives or raises them.

        With `replicas` above 1 what was STORED is put to other nodes, too, which the directory
        chooses. How many have each then stands in `replicas` of the results; fewer than were asked
        for is no failure, the directory has the rest made up for. Raises UsageError (replicas).
        """
        home, writer = self._writing()
        rows = Values.of(home.joined.secret, keys, values, ttl, parents).wanted(replicas, home)
        answers = np.full(len(keys), PRESENT, np.uint8)
        new = np.arange(len(keys))
        if home.reader is not None:
            new = np.flatnonzero(home.reader.exists(rows.digests) != _core.HIT)
        if len(new):
            answers[new] = writer.put(rows.some(new))
        achieved = None if replicas == 1 else self._elsewhere.spread(rows, answers, replicas)
        return Results(answers, np.where(answers == STORED, rows.lengths, NO_BYTES), achieved)

    def get_batch(self, keys: Sequence[Key]) -> list[bytes | None]:
        """A copy of each value, None where there is none, for whatever reason."""
        return asked(self._checked().copies, keys, None)[1]

    def get_batch_into(self, keys: Sequence[Key], outs: Sequence[Any]) -> Results:
        """Fill each buffer with the value of its key: FOUND, ABSENT, TOO_SMALL ... each.

        One message to each node that is asked at all. Buffers of keys that are not FOUND are
        unspecified, of ABSENT and TOO_SMALL as they were.
        """
        return self._get_batch_into(keys, outs, None)

    def exists_batch(self, keys: Sequence[Key]) -> NDArray[np.bool_]:
        """Which are there? Raises PeerError when the own node is gone and one is found nowhere."""
        answers = asked(self._checked().exists, keys)
        if NODE_GONE in answers.tobytes():
            raise error_of(Answer.NODE_GONE, self._own.address)
        found: NDArray[np.bool_] = answers == FOUND
        return found

    def remove_batch(self, keys: Sequence[Key]) -> Results:
        """REMOVED, ABSENT, LEASED or NODE_GONE each, at the user's own node and at those of which
        the directory says that they have it. NODE_GONE: one of these did not answer, and may have
        it still; doing it again is harmless."""
        own = self._told(keys, lambda digests: m.Remove(digests))
        return Results(remove_elsewhere(self._elsewhere, keys, own.codes.copy()), own.lengths)

    # ---- while others work ----

    def put_batch_async(
        self,
        keys: Sequence[Key],
        values: Sequence[Any],
        *,
        ttl: float | None = None,
        parents: Sequence[Key] | None = None,
        replicas: int = 1,
    ) -> Pending:
        """The same as put_batch, in a thread of the store. Raises Full when very many wait."""
        self._check()

        def put(pending: Pending) -> Results:
            pending.check()
            return self.put_batch(keys, values, ttl=ttl, parents=parents, replicas=replicas)

        return self._calls.start(put)

    def get_batch_into_async(self, keys: Sequence[Key], outs: Sequence[Any]) -> Pending:
        """The same as get_batch_into, in a thread of the store."""
        self._check()

        def get(pending: Pending) -> Results:
            pending.check()
            return self._get_batch_into(keys, outs, pending.watch)

        return self._calls.start(get)

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

    def stats(self) -> dict[str, dict[str, int]]:
        """Figures of the own node: usage, reads, misses by cause, users."""
        return self._both()[0].ask(m.Look(), m.Looked).figures

    @property
    def engine(self) -> Engine:
        """Its own engine."""
        return self._engine

    def __repr__(self) -> str:
        return f"<Store at {self._asked.own or 'this process'}>"

    # ---- the end ----

    def close(self) -> None:
        """Leave. An embedded node ends, and what it stored is gone. Idempotent.

        Blocks until what is under way is over. Views that are still in use keep their bytes.
        """
        with self._lock:
            if self._over is not None:
                return
            self._over = ClosedError("the store was closed", cause="closed")
        alive.ended(self)
        if self._inherited:
            return  # nothing here is this process's
        if self._queue is not None:
            self._queue.close()
        for place in (self._elsewhere, self._own):
            place.leave()
        self._engine.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- inside ----

    def _joining(self) -> Home:
        if self._asked.own is not None:
            return home_at(self._engine, self._asked.own, self._path, self._namespace)
        return self._node(self._engine)

    def _at(self, address: str, epoch: int | None) -> NodeAt:
        """A place at a node elsewhere."""
        joining = partial(home_at, self._engine, address, self._path, self._namespace)
        if epoch is not None:
            joining = partial(home_in_life, joining, epoch)
        return NodeAt(address, joining, self._options.call_timeout)

    @property
    def _calls(self) -> Queue:
        with self._lock:
            self._queue = self._queue or Queue()
            return self._queue

    def _check(self) -> None:
        if self._inherited:
            self._begin_anew()
        if self._over is not None:
            raise self._over.again()

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

    def _both(self) -> tuple[Home, Writer]:
        self._check()
        return self._own.both

    def _writing(self) -> tuple[Home, Writer]:
        self._check()
        return self._own.writing

    def _get_batch_into(self, keys: Sequence[Key], outs: Sequence[Any], watch: Watch) -> Results:
        reading = self._checked()
        same(len(keys), len(outs))
        home = self._own.now
        if home is not None and home.reader is not None and not isinstance(keys, str):
            try:
                return Results(*reading.into(keys, outs, watch))
            except (TypeError, ValueError, BufferError):
                pass  # of a key or a buffer: said more clearly below
        targets = [writable(each) for each in flats(outs)]
        return Results(*asked(reading.into, keys, targets, watch))

    def _told(self, keys: Sequence[Key], request: Any) -> Results:
        """What the own node answers to a request about keys."""
        home = self._both()[0]
        digests = digests_of(keys, home.joined.secret)
        answers = m.answers_in(home.ask(request(m.column_of(digests)), m.Told).answers)
        m.check_rows(len(digests), answers)
        return Results(answers, np.zeros(len(digests), np.uint64))

    def forked(self) -> None:
        """Of alive.Open: the engine is the parent's, and closed here by now."""
        self._lock = threading.Lock()
        if self._over is None and self._asked.own is None:
            self._over = ForkedError("the node is in the parent process", cause="forked")
        self._inherited = self._over is None

    def _begin_anew(self) -> None:
        with self._lock:
            if self._inherited:
                self._begin()
