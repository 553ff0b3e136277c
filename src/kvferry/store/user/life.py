"""How a store begins and ends: its engine, its place at a node, and what it asks elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from ... import config
from ...engine import Engine
from ...errors import ClosedError, Error, ForkedError, PeerError, UsageError
from ..codecs.codec import Codec
from ..directory.directed import Directed
from ..records import Limits
from . import alive
from .addresses import bytes_in, places_of
from .elsewhere import Elsewhere
from .embed import embed, mistake
from .home import Home
from .namespace import Namespace
from .naming import Naming
from .node_at import NodeAt
from .pending import Queue
from .reading import Reading
from .through import home_at, home_in_life
from .writer import Writer

__all__ = ["Life"]

LIMITS = Limits()

Self = TypeVar("Self", bound="Life")


class Life:
    """What a Store is beside its verbs; what the arguments mean stands there.

    A store of a forked child begins anew with its first call.
    """

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
        self._naming = Naming(self._elsewhere.line, self._namespace.space)
        self._queue: Queue | None = None

    @property
    def engine(self) -> Engine:
        """Its own engine."""
        return self._engine

    @property
    def enrolled(self) -> bool:
        """Does the directory know an embedded node, and all it has? False while there is news that
        it was not told; True of other nodes. Before an embedded node has enrolled for the first
        time, what is put there may be dropped, if it was removed elsewhere. Raises PeerError."""
        return self._own.home.enrolled

    def __repr__(self) -> str:
        return f"<Store at {self._asked.own or 'this process'}>"

    # ---- the end ----

    def close(self) -> None:
        """Leave. An embedded node ends, and what it stored is gone. Idempotent.

        Blocks until what is copied this moment is, for a second or so; what is even then, and views
        that are still in use, keep their bytes until the process ends.
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
        self._naming.close()
        for place in (self._elsewhere, self._own):
            place.leave()
        self._engine.close()

    def __enter__(self: Self) -> Self:
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

    def _both(self) -> tuple[Home, Writer]:
        self._check()
        return self._own.both

    def _writing(self) -> tuple[Home, Writer]:
        self._check()
        return self._own.writing

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
