"""Values that are read and written layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from kvferry.errors import ClosedError, UsageError

from .replicate import ReplicateConfig
from .store_client import Client
from .store_codes import FAILURES, Code, apart, code_of, lost, moved, put, reserved
from .store_plan import PLAIN, check, each_of
from .store_reads import MISSES, Key
from .store_sessions import Part, Started, parts_of
from .store_writes import Writes

__all__ = ["Layers"]

Numbers = Sequence[Sequence[int]]

OK, INVALID = int(Code.OK), int(Code.INVALID_PARAMS)
MISSING = int(Code.OBJECT_NOT_FOUND)


class Layers(Writes):
    """A session of reads keeps its objects for the master's lease from its start. One of writes
    reserves memory, which nobody reads before its end. -600: a key has no session. Without a client
    the result is []."""

    # ---- reads ----

    def batch_get_session_start(self, keys: Sequence[Key]) -> list[int]:
        """0: it is there and may be read in ranges; -704: it is not."""
        client = self._client
        try:
            there = client.store.exists_batch(keys, lease=client.settings.keeping).tolist()
        except ClosedError as error:
            return lost("batch_get_session_start", error, [])
        except FAILURES as error:
            return [code_of("batch_get_session_start", error, MISSES)] * len(keys)
        client.sessions.read([key for key, found in zip(keys, there, strict=True) if found])
        return [OK if found else MISSING for found in there]

    def batch_get_into_multi_buffer_ranges(
        self,
        keys: Sequence[Key],
        all_buffer_ptrs: Numbers,
        all_sizes: Numbers,
        all_src_offsets: Numbers,
    ) -> list[int]:
        """Copy ranges of each value to addresses: bytes copied of each. -600: a range ends beyond
        the value, or is not mapped."""
        client = self._client
        try:
            if not client.sessions.reads(keys):
                raise UsageError("no session was started", cause="no_session")
            pieces = client.memory.pieces(all_buffer_ptrs, all_sizes, writable=True)
            return moved(pieces, *client.store.get_ranges(keys, pieces, all_src_offsets))
        except ClosedError as error:
            return lost("batch_get_into_multi_buffer_ranges", error, [])
        except FAILURES as error:
            again = self.batch_get_into_multi_buffer_ranges
            columns = keys, all_buffer_ptrs, all_sizes, all_src_offsets
            return apart(
                "batch_get_into_multi_buffer_ranges", error, again, *columns, causes=MISSES
            )

    def batch_get_session_end(self, keys: Sequence[Key]) -> int:
        """0; -1: there is no client."""
        if not self._client.active:
            return int(Code.INTERNAL_ERROR)
        self._client.sessions.end_reads(keys)
        return OK

    # ---- writes ----

    def batch_put_session_start(
        self, keys: Sequence[Key], sizes: Sequence[int], config: ReplicateConfig = PLAIN
    ) -> list[int]:
        """Reserve memory: a code for each. -705: it is there; -600: no key, no bytes, or a
        session that goes on."""
        client = self._client
        try:
            check(config, len(keys), gathered=True)
            if len(keys) != len(sizes):
                raise UsageError(f"{len(keys)} keys and {len(sizes)} sizes", cause="lengths")
            with client.sessions.starting(keys) as free:
                rows = [at for at, size in enumerate(sizes) if size > 0 and keys[at] and free[at]]
                return _started(client, keys, sizes, rows, config)
        except ClosedError as error:
            return lost("batch_put_session_start", error, [])
        except FAILURES as error:
            return [code_of("batch_put_session_start", error)] * len(keys)

    def batch_put_from_multi_buffer_ranges(
        self,
        keys: Sequence[Key],
        all_buffer_ptrs: Numbers,
        all_sizes: Numbers,
        all_dst_offsets: Numbers,
    ) -> list[int]:
        """Copy from addresses to ranges of each value: bytes copied of each. -600: a range ends
        beyond the value, or is not mapped."""
        client = self._client
        try:
            found = client.sessions.written(keys)
            if None in found or not len(keys) == len(all_dst_offsets):
                raise UsageError("no session was started", cause="no_session")
            pieces = client.memory.pieces(all_buffer_ptrs, all_sizes)
            for draft, rows, at in parts_of(found):
                some = pieces if len(at) == len(keys) else pieces.some(np.array(at))
                draft.write(rows, some, [all_dst_offsets[each] for each in at])
            sizes: list[int] = pieces.sizes.tolist()
            return sizes
        except ClosedError as error:
            return lost("batch_put_from_multi_buffer_ranges", error, [])
        except FAILURES as error:
            again = self.batch_put_from_multi_buffer_ranges
            columns = keys, all_buffer_ptrs, all_sizes, all_dst_offsets
            return apart("batch_put_from_multi_buffer_ranges", error, again, *columns)

    def batch_put_session_end(self, keys: Sequence[Key]) -> list[int]:
        """Make what was written whole readable: a code for each. -600: not all of it was written,
        and the session goes on."""
        client = self._client
        if not client.active:
            return []
        found, codes = client.sessions.written(keys), [INVALID] * len(keys)
        for part in parts_of(found):
            for at, code in zip(part.at, _committed(part), strict=True):
                codes[at] = code
        client.sessions.end_writes(
            [key for key, code in zip(keys, codes, strict=True) if code != INVALID]
        )
        for at, started in enumerate(found):
            if started is not None and started.config is not PLAIN and codes[at] == OK:
                client.keeping.keep(client.store, [keys[at]], started.config, [OK])
        if OK in codes:
            client.settle()
        return codes

    def batch_put_session_revoke(self, keys: Sequence[Key]) -> list[int]:
        """Give up what was written: 0 for each."""
        client = self._client
        if not client.active:
            return []
        found = client.sessions.written(keys)
        client.sessions.end_writes(keys)
        for part in parts_of(found):
            with suppress(ClosedError):  # its places have gone with its node
                part.draft.drop(part.rows)
        return [INVALID if started is None else OK for started in found]


def _started(
    client: Client,
    keys: Sequence[Key],
    sizes: Sequence[int],
    rows: Sequence[int],
    config: ReplicateConfig,
) -> list[int]:
    """A code for each key: sessions of these rows are started where there is room."""
    draft = client.store.draft([keys[at] for at in rows], [sizes[at] for at in rows])
    codes, said = [INVALID] * len(keys), reserved(draft.answers)
    started = {}
    for row, at in enumerate(rows):
        codes[at] = said[row]
        if said[row] == OK:
            started[keys[at]] = Started(draft, row, each_of(config, at))
    client.sessions.write(started)
    return codes


def _committed(part: Part) -> list[int]:
    def commit(rows: Sequence[int]) -> list[int]:
        try:
            return put(part.draft.commit(rows))
        except FAILURES as error:
            return apart("batch_put_session_end", error, commit, rows)

    return commit(part.rows)
