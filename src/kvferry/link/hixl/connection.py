"""This engine's connection to another HIXL engine, shared by all channels to it.

HIXL cannot stop one transfer: it can disconnect, which stops all of them. So an abort ends the
connection, the transfers of others included, and every channel over it; the same does a failure. It
is over at once, and apart when disconnecting has returned: then all of it is quiet.

    shown     the number of what it shows (see memory.py); to show more it is made anew, which waits
              until nothing is under way
    over      why nothing more goes over it
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ... import _core, log
from ..._core import Done
from ...errors import Error, Full, PeerError, Timeout
from .memory import LocalMemory
from .module import Code, Hixl, broken, meaning, translate
from .requests import REQUESTS_MOST, HixlRequests, Request

__all__ = ["HixlConnection"]

logger = log.get("kvferry.link")

CONNECT_MS = 3000
DISCONNECT_MS = 1000
AGAIN = 0.02  # seconds before another try to disconnect


class HixlConnection:
    """Thread-safe. Its books are the requests': `changed` is held for lines that touch them.

    links   how many channels share it
    under_way  requests under way over it
    """

    def __init__(
        self,
        remote: str,
        peer: str,
        epoch: int,
        hixl: Hixl,
        memory: LocalMemory,
        requests: HixlRequests,
    ) -> None:
        self.remote = remote
        self.peer = peer
        self.epoch = epoch
        self.over: Error | None = None
        self.apart = False
        self.links = 1
        self.under_way = 0
        self.shown = 0
        self.connecting = True
        self._hixl = hixl
        self._memory = memory
        self._requests = requests
        self._changed = requests.changed
        self._submitting = 1  # threads in a call of HIXL for it; its maker connects
        self._waiting: list[int] = []  # for their turn: the number that each must be shown

    # ---- connecting ----

    def connect(self, deadline: int | None) -> None:
        """By who made it, or saw to it that nobody else uses it. Raises PeerError and others; the
        connection is over then."""
        with self._making():
            self._connect(deadline)
        self._leave()

    def _connect_again(self, deadline: int | None) -> None:
        """Nothing is under way: show what was registered since."""
        with self._making():
            code = self._disconnect()
            if code not in (Code.SUCCESS, Code.NOT_CONNECTED):
                raise translate(f"disconnecting from {self.remote}", code, self.peer)
            self._connect(deadline)

    def _connect(self, deadline: int | None) -> None:
        number = self._memory.number()
        left = CONNECT_MS if deadline is None else (deadline - _core.now()) // 1_000_000
        code = self._hixl.connect(self.remote, max(1, min(CONNECT_MS, left)))
        if code:
            raise translate(f"connecting to the HIXL engine {self.remote}", code, self.peer)
        self.shown = number

    @contextmanager
    def _making(self) -> Iterator[None]:
        """Nobody else goes over it meanwhile. When that goes wrong it is over, and left."""
        try:
            yield
            self._check()  # somebody may have cut it
        except BaseException as error:
            self._leave()
            self.cut(error if isinstance(error, Error) else self._interrupted("connecting"))
            raise
        finally:
            with self._changed:
                self.connecting = False
                self._changed.notify_all()

    # ---- transfers ----

    def enter(self, since: int, done: Done, deadline: int | None, patient: bool) -> bool:
        """Wait for room for one more request over a connection that shows number `since`.

        `begin` follows. False: `done` was aborted meanwhile. Raises Timeout, or Full for one who is
        not patient; and why the connection is over.
        """
        with self._changed:
            self._waiting.append(since)
            try:
                while (obstacle := self._obstacle(since)) is not None:
                    if done.aborted:
                        return False
                    self._wait(obstacle, deadline, patient)
            finally:
                self._waiting.remove(since)
            self._submitting += 1
            anew = self.connecting = since > self.shown
        if anew:
            self._connect_again(deadline)
        return True

    def begin(self, op: Any, descriptors: Sequence[Any], done: Done) -> None:
        """Hand a transfer to HIXL, after `enter`. Raises what HIXL refuses it with."""
        code, ends = 0, False
        try:
            code, number = self._hixl.transfer_async(self.remote, op, descriptors)
            if not code or not meaning(code).refused:
                # Over before it is in the books: HIXL is not to be asked about it.
                ends = bool(code) and self._die(broken("submitting to HIXL", code, self.peer))
                self._requests.add(done, Request(self, number))
        except BaseException:  # a signal, maybe: nobody knows whether it has begun
            self._leave()
            if ends or self._die(self._interrupted("submitting")):
                self._part_elsewhere()
            self._await_apart()
            raise
        self._leave()
        if ends:
            self._part_elsewhere()
        elif code and meaning(code).refused:
            raise translate("submitting to HIXL", code, self.peer)
        elif done.aborted:
            self.abort(done)

    def abort(self, done: Done) -> None:
        """Disconnect, if it is under way. Does not block."""
        if done in self._requests:
            text = "another transfer was aborted: HIXL can only disconnect, which stops all"
            self.cut(PeerError(text, cause="hixl_disconnected", peer=self.peer, bytes_moved=None))
        with self._changed:
            self._changed.notify_all()  # it may be waiting for its turn

    def _obstacle(self, since: int) -> str | None:
        """With the books: why this one may not go now."""
        self._check()
        busy = self._submitting + self.under_way
        if self.connecting:
            return "HIXL is connecting anew"
        if since > self.shown and busy:
            return f"{busy} transfers are under way over a connection that is older than its memory"
        if since <= self.shown and any(each > self.shown for each in self._waiting):
            return "another transfer waits for the connection to be made anew"
        room = len(self._requests) < REQUESTS_MOST
        return None if room else f"{REQUESTS_MOST} transfers are under way"

    def _wait(self, obstacle: str, deadline: int | None, patient: bool) -> None:
        if not patient:
            raise Full(obstacle, cause="no_slot", peer=self.peer)
        left = None if deadline is None else (deadline - _core.now()) / 1e9
        if left is not None and left <= 0:
            raise Timeout(f"no turn in time: {obstacle}", cause="no_slot", peer=self.peer)
        self._changed.wait(left)

    def _leave(self) -> None:
        with self._changed:
            self._submitting -= 1
            self._changed.notify_all()

    def _interrupted(self, what: str) -> Error:
        return PeerError(
            f"{what} was interrupted", cause="interrupted", peer=self.peer, bytes_moved=None
        )

    def _check(self) -> None:
        if self.over is not None:
            raise self.over.again()

    # ---- the end ----

    def cut(self, why: Error) -> None:
        """It is over because of `why`, and disconnected by a thread of its own: that may block as
        long as the peer does, and nobody else is to wait for it. Idempotent."""
        if self._die(why):
            self._part_elsewhere()

    def _part_elsewhere(self) -> None:
        try:
            threading.Thread(target=self._part, name="kvferry-hixl-cut", daemon=True).start()
        except RuntimeError:  # no thread, or the interpreter ends
            self._part()

    def close(self, why: Error) -> None:
        """As cut; blocks until it is apart."""
        if self._die(why):
            self._part()
        self._await_apart()

    def _die(self, why: Error) -> bool:
        with self._changed:
            first = self.over is None
            self.over = self.over or why
            self._changed.notify_all()
        return first

    def _part(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._submitting or self._requests.closing)
        code = self._disconnect()
        # It may still be stopping transfers, whose bytes may land.
        while code == Code.TIMEOUT and not self._requests.closing:
            logger.warning(
                "HIXL took too long to disconnect from %s, and is asked again", self.remote
            )
            with self._changed:
                self._changed.wait(AGAIN)
            code = self._disconnect()
        if code != Code.TIMEOUT:
            self._requests.lose(self)
        with self._changed:
            self.apart = True
            self._changed.notify_all()

    def _disconnect(self) -> int:
        return self._hixl.disconnect(self.remote, DISCONNECT_MS)

    def _await_apart(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.apart)
