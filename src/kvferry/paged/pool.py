"""The blocks of a pool: who is free, who is used how often, who leaves first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._core import Queue
from ..errors import UsageError
from .events import AllBlocksCleared, BlockRemoved, BlockStored, Event
from .ids import NOBODY, Ids, IdsLike, check_counts, ids_of
from .prefix_cache import PrefixCache

__all__ = ["NULL", "BlockPool"]

NULL = 0  # the block that is never handed out: it stands in tables where no block is


class BlockPool:
    """Numbers of blocks, without their bytes; every verb takes many. One thread at a time.

    Blocks from 1 to blocks - 1 are free or used so many times. The free ones stand in a line: at
    its head who is handed out next, at its end who was freed last. A free block keeps its hash,
    and is found by it, until it is handed out.

        allocate  head of the line -> used once, without a hash
        touch     used once more; leaves the line wherever it stands
        free      used once less; at none, to the end of the line, the last of them first: so of
                  one request its tail goes before its head, which others may share

    blocks    how many there are, the null block among them
    prefixes  hashes of as many blocks; None: there are none
    events    remember what came and went, for `take_events`

    Raises UsageError (blocks) for fewer than two, or hashes of another number.
    """

    def __init__(
        self, blocks: int, prefixes: PrefixCache | None = None, *, events: bool = False
    ) -> None:
        if not isinstance(blocks, int) or not 2 <= blocks <= 1 << 30:
            raise UsageError(f"a pool of {blocks!r} blocks", cause="blocks")
        if prefixes is not None and prefixes.room != blocks:
            raise UsageError(f"hashes of {prefixes.room} for {blocks} blocks", cause="blocks")
        self.blocks = blocks
        self.prefixes = prefixes
        self._uses = np.zeros(blocks, np.int32)
        self._places = np.arange(blocks)
        self._seen = np.zeros(blocks, np.int64)  # scratch of _each_once
        self._line = Queue(blocks)
        self._line.push(self._places[NULL + 1 :])
        self._free = blocks - 1
        self._events: list[Event] | None = [] if events else None

    @property
    def free_blocks(self) -> int:
        return self._free

    @property
    def used_blocks(self) -> int:
        return self.blocks - 1 - self._free

    def line(self) -> Ids:
        """The free blocks, those first that are handed out first."""
        return self._line.members()

    def uses(self, blocks: IdsLike) -> NDArray[np.int32]:
        """How often each is used."""
        return self._uses[ids_of(blocks, self.blocks)]

    def unused(self, blocks: Ids) -> int:
        """How many of these are free."""
        return len(blocks) - int(np.count_nonzero(self._uses[blocks]))

    def allocate(self, count: int) -> Ids | None:
        """So many blocks, used once; None: fewer are free, and nothing was changed."""
        check_counts("blocks", count)
        if count > self._free:
            return None
        if not count:
            return NOBODY
        blocks = self._line.pop(count)
        self._free -= count
        self._uses[blocks] = 1
        if self.prefixes is not None:
            self._removed(self.prefixes.drop(blocks))
        return blocks

    def touch(self, blocks: IdsLike) -> None:
        """Each is used once more. Raises UsageError (blocks) when one occurs twice."""
        wanted = self._real(blocks)
        if len(wanted):
            self._free -= self.unused(wanted)
            self._line.drop(wanted)
            self._uses[wanted] += 1

    def free(self, blocks: IdsLike) -> None:
        """Each is used once less, in the reverse order. Null blocks are passed over.

        Raises UsageError (blocks) when one occurs twice, or is free: nothing was changed then.
        """
        wanted = self._real(blocks)
        if not len(wanted):
            return
        left = self._uses[wanted] - 1
        if left.min() < 0:
            index = int(np.flatnonzero(left < 0)[0])
            raise UsageError(f"block {wanted[index]} is free", cause="blocks", index=index)
        self._uses[wanted] = left
        unused = wanted[left == 0][::-1]
        if len(unused):
            self._line.push(np.ascontiguousarray(unused))
            self._free += len(unused)

    def cache(
        self,
        blocks: IdsLike,
        hashes: Sequence[bytes],
        *,
        parent: bytes | None = None,
        tokens: Sequence[int] | NDArray[np.int64] = (),
        adapter: str | None = None,
    ) -> None:
        """Blocks that are used and full get their hashes; at the beginning those are passed over
        that have them, by a fork, and null blocks. The rest is for the event: the hash before them,
        their tokens, the name of the adapter.

        Raises UsageError (cached, hashes, blocks); nothing was changed then.
        """
        wanted = ids_of(blocks, self.blocks)
        if self.prefixes is None or not len(wanted):
            return
        size = self.prefixes.hashing.block_tokens
        passed = self._passed(wanted, hashes)
        if passed:
            parent, tokens = hashes[passed - 1], tokens[passed * size :]
            wanted, hashes = wanted[passed:], hashes[passed:]
        self._each_once(wanted)
        if self.unused(wanted):
            raise UsageError("a free block is given a hash", cause="blocks")
        self.prefixes.insert(wanted, hashes)
        if self._events is not None and len(wanted):
            words = np.asarray(tokens, np.int64).tolist()
            self._events.append(BlockStored(list(hashes), parent, words, size, adapter))

    def uncache(self, blocks: IdsLike) -> None:
        """These are found no more: what is in them is not what their hashes say."""
        if self.prefixes is not None:
            self._removed(self.prefixes.drop(self._real(blocks)))

    def reset(self) -> bool:
        """No block is found any more. False, and nothing was changed: some are used."""
        if self.used_blocks:
            return False
        if self.prefixes is not None:
            self.prefixes.clear()
        if self._events is not None:
            self._events.append(AllBlocksCleared())
        return True

    def take_events(self) -> list[Event]:
        """What came and went since it was last asked."""
        taken = self._events or []
        if self._events is not None:
            self._events = []
        return taken

    def check_integrity(self) -> list[str]:
        """What is wrong, one sentence each."""
        line = self.line().tolist()
        wrong = [] if self.prefixes is None else self.prefixes.check_integrity()
        if sorted(line) != (np.flatnonzero(self._uses[1:] == 0) + 1).tolist():
            wrong.append("not those stand in line that are used by nobody")
        if len(line) != self._free:
            wrong.append(f"{self._free} blocks count as free, of {len(line)}")
        if (self._uses < 0).any() or self._uses[NULL]:
            wrong.append("a block is used less than never, or the null block is used")
        if self.prefixes is not None and self.prefixes.hashes_of(np.array([NULL])) != [None]:
            wrong.append("the null block has a hash")
        return wrong

    def _real(self, blocks: IdsLike) -> Ids:
        """Without null blocks, each once."""
        wanted = ids_of(blocks, self.blocks)
        if not wanted.all():
            wanted = wanted[wanted != NULL]
        self._each_once(wanted)
        return wanted

    def _passed(self, blocks: Ids, hashes: Sequence[bytes]) -> int:
        """How many at the beginning have their hash, or are no blocks."""
        if self.prefixes is None or len(blocks) != len(hashes):
            return 0
        if blocks[0] != NULL and not self.prefixes.holds(blocks[:1])[0]:
            return 0
        known = self.prefixes.hashes_of(blocks)
        for at, (block, mine, wanted) in enumerate(
            zip(blocks.tolist(), known, hashes, strict=True)
        ):
            if block != NULL and mine != wanted:
                return at
        return len(blocks)

    def _each_once(self, blocks: Ids) -> None:
        if len(blocks) > self.blocks:
            raise UsageError(f"{len(blocks)} of {self.blocks} blocks", cause="blocks")
        places = self._places[: len(blocks)]
        self._seen[blocks] = places  # of equal ones the last stays
        once = self._seen[blocks] == places
        if not once.all():
            index = int(np.argmin(once))
            raise UsageError(f"block {blocks[index]} occurs twice", cause="blocks", index=index)

    def _removed(self, hashes: list[bytes]) -> None:
        if self._events is not None and hashes:
            self._events.append(BlockRemoved(hashes))
