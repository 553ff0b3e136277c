"""Handing over the KV of a prompt: layer by layer, while later layers are computed."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from ...batch import Batch
from ...engine import Channel, Transfer
from ...errors import Error, Full, NotQuiet
from ...paged import PagedMemory, layouts
from ...paged.ids import Ids, blocks_for
from .messages import Arrived, Hop

__all__ = ["NOTIFICATION", "Push"]

NOTIFICATION = "kv"
BEHIND = 5.0  # seconds that the peer has for the last of it


class Push:
    """One prompt's way to a peer's blocks. Each block of each layer is written once, when it is
    full or the prompt ends. One thread at a time.

    ours    memory that the KV is computed into
    theirs  the peer's, and of the prompt these blocks of it
    start   tokens before it are there already
    again   connects anew where that is needed: of what was sent before nothing lands then

    What fails on the way is kept until `finish` raises it: who computes goes on. Raises UsageError
    (layout, blocks) for memory of another layout, or blocks that are not there.
    """

    def __init__(
        self,
        channel: Channel,
        ours: PagedMemory,
        theirs: PagedMemory,
        blocks: Ids,
        start: int,
        prompt: int,
        again: Callable[[], object] = lambda: None,
    ) -> None:
        self.channel = channel
        self.since = time.monotonic()
        layouts.batch(ours, blocks[:0], theirs, blocks[:0])
        theirs.addresses(blocks)
        self._ours, self._theirs, self._blocks = ours, theirs, blocks
        self._tokens = ours.record.block_tokens
        self._prompt = prompt
        self._again = again
        self._sent = start // self._tokens  # blocks, of all layers
        self._under_way: list[tuple[int, float, Transfer]] = []
        self._failure: Error | None = None

    def written(self, layer: int, blocks: Ids, stop: int) -> None:
        """The KV of this layer is there up to token `stop`, in these blocks of ours."""
        end = blocks_for(stop, self._tokens) if stop == self._prompt else stop // self._tokens
        if self._sent < end and self._failure is None:
            ours, theirs = blocks[self._sent : end], self._blocks[self._sent : end]
            batch = layouts.batch(self._ours, ours, self._theirs, theirs, layers=[layer])
            at = time.monotonic()
            try:
                transfer = self._submit(batch)
            except NotQuiet:
                raise
            except Error as error:
                self._failure = error
                return
            self._under_way.append((layer, at, transfer))
        if layer == self._ours.record.layers - 1:
            self._sent = max(self._sent, end)

    def finish(self, name: str, token: int) -> list[Hop]:
        """Say that all of it is there, and how it went. Blocks until it is. Raises what failed;
        nothing is under way then. Raises NotQuiet when that cannot be said."""
        self.settle()
        if self._failure is None:
            self._tell(msgspec.json.encode(Arrived(name, token)))
        if self._failure is not None:
            self._again()
            raise self._failure
        reports = [(layer, at, transfer.report) for layer, at, transfer in self._under_way]
        return [
            Hop(layer, at, report.seconds, report.bytes, str(report.path))
            for layer, at, report in reports
        ]

    def settle(self) -> None:
        """Block until nothing reads our blocks any more: they may become somebody else's. Raises
        NotQuiet when that cannot be said."""
        end = time.monotonic() + BEHIND
        for _, _, transfer in self._under_way:
            try:
                transfer.wait(max(0.0, end - time.monotonic()))
            except NotQuiet:
                raise
            except Error as error:
                self._failure = self._failure or error

    def _tell(self, said: bytes) -> None:
        try:
            self.channel.notify(NOTIFICATION, said, timeout=BEHIND)
        except Error as error:
            self._failure = error

    def _submit(self, batch: Batch) -> Transfer:
        try:
            return self.channel.write_async(batch)
        except Full:  # of transfers: ours make room
            self.settle()
            return self.channel.write_async(batch)
