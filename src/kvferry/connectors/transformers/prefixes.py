"""Prompts whose beginning the store knows already."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Any

import torch

from ... import log
from ...errors import Error
from ...paged import Extras, PrefixHash, StoredBlocks
from ...paged.hashing.tokens import Tokens
from ...store import Store
from . import adapters, pages, refused, weights

__all__ = ["Prefixes", "Report"]

_log = log.get(__name__)


@dataclass(frozen=True)
class Report:
    """What the store was good for in one call of generate.

    prompt   tokens of it
    hit      of these, from the first on: whose KV was restored
    kept     tokens of prompt and answer, from the first on, whose KV the store has now
    read, written   bytes
    restoring, generating, saving   seconds
    failed   what the store raised; there was no hit, or nothing is kept, for that
    """

    prompt: int
    hit: int
    kept: int
    read: int
    written: int
    restoring: float
    generating: float
    saving: float
    failed: tuple[Error, ...]


class Prefixes:
    """The KV of one model's prompts in a store, block by block. One thread at a time.

    model         a PreTrainedModel on the CPU, or a PeftModel of one
    store         any kf.Store
    block_tokens  tokens of a block: only full ones are stored
    revision      names model and weights, for all who use the store. None: they are named by a
                  digest of all weights, which is read now

    KV is found by models of the same class, config, weights and dtype, with the same active
    adapters. Weights that change afterwards are refused, adapters may be switched. Computes the KV
    of one token. Raises UsageError (model, device, rope, training, adapter, cache, layout) for
    models whose KV is not the same whenever tokens are.
    """

    def __init__(
        self, model: Any, store: Store, block_tokens: int = 16, revision: str | None = None
    ) -> None:
        refused.check_model(model)
        self.model = model
        self.store = store
        self._marks = weights.Marks(model)
        self._extras()
        name, revision = weights.named(model, revision)
        self.record = pages.record_of(model, name, revision, block_tokens)
        self._hashing = PrefixHash(block_tokens, identity=self.record.identity)
        one = pages.memory_of(self.record, pages.empty(self.record, 1))
        self._asked = StoredBlocks(store, one)  # what is there, and never for bytes

    def restore(self, ids: Any) -> tuple[Any, int]:
        """A new DynamicCache with the KV of the longest beginning that the store has, and of how
        many tokens: fewer than ids has, for the last one has to be computed.

        ids  a list of tokens, or a tensor of one row

        Blocks. Raises UsageError (tokens, batch; weights, adapter, training), and as a store does.
        """
        return self._restore(refused.row_of(ids), self._extras())

    def save(self, ids: Any, cache: Any) -> int:
        """Store the KV of full blocks: of how many tokens the store has it now, from the first on.

        ids    the tokens that cache was computed of, or the first of them; with the adapters that
               are active now
        cache  a DynamicCache, which stays as it is

        Copies at most what is not stored yet. Blocks. Raises UsageError (cache, and as restore
        does), and as a store does.
        """
        return self._save(refused.row_of(ids), cache, self._extras())[0]

    def generate(self, ids: Any, **arguments: Any) -> tuple[Any, Report]:
        """What model.generate returns for one prompt, and what came from the store and went there.

        arguments  those of model.generate that choose tokens: greedy or sampled, one sequence

        A store that fails is logged, and stands in the report: the answer is computed all the same.
        Raises UsageError before anything is computed (argument, attention_mask; tokens, batch;
        weights, adapter, training), and what model.generate raises.
        """
        row = refused.row_of(ids)
        refused.check_arguments(self.model, len(row), arguments)
        extras = self._extras()
        failed: list[Error] = []
        begun = monotonic()
        cache, hit = self._restored(row, extras, failed)
        restored = monotonic()
        output = self._generate(row, cache, arguments)
        generated = monotonic()
        kept, written = self._saved(_sequence(output), cache, extras, failed)
        report = Report(
            prompt=len(row),
            hit=hit,
            kept=kept,
            read=hit // self.record.block_tokens * self.record.page_bytes,
            written=written * self.record.page_bytes,
            restoring=restored - begun,
            generating=generated - restored,
            saving=monotonic() - generated,
            failed=tuple(failed),
        )
        return output, report

    def _extras(self) -> Extras:
        """As the adapters are now."""
        refused.check_mode(self.model)
        self._marks.check()
        return Extras(adapter=adapters.active(self.model))

    def _restore(self, row: Tokens, extras: Extras) -> tuple[Any, int]:
        hashes = self._hashing.chain(row[:-1], extras)
        there = self._asked.has(hashes)
        if not there:
            return self._nothing()
        tensors = pages.empty(self.record, there)
        stored = StoredBlocks(self.store, pages.memory_of(self.record, tensors))
        tokens = stored.get(hashes[:there], range(there)) * self.record.block_tokens
        return pages.cache_of(self.model.config, tensors, tokens), tokens

    def _restored(self, row: Tokens, extras: Extras, failed: list[Error]) -> tuple[Any, int]:
        try:
            return self._restore(row, extras)
        except Error as error:
            _log.warning("nothing is restored, since the store failed: %s", error)
            failed.append(error)
            return self._nothing()

    def _saved(
        self, row: Tokens, cache: Any, extras: Extras, failed: list[Error]
    ) -> tuple[int, int]:
        try:
            return self._save(row, cache, extras)
        except Error as error:
            _log.warning("nothing is saved, since the store failed: %s", error)
            failed.append(error)
            return 0, 0

    def _nothing(self) -> tuple[Any, int]:
        return pages.cache_of(self.model.config, [], 0), 0

    def _save(self, row: Tokens, cache: Any, extras: Extras) -> tuple[int, int]:
        """Of how many tokens it is there, and how many blocks were put for that."""
        size = self.record.block_tokens
        pages.check(self.record, cache)
        hashes = self._hashing.chain(row[: pages.tokens_in(cache)], extras)
        there = self._asked.has(hashes)
        new = hashes[there:]
        if not new:
            return there * size, 0
        tensors = pages.cut(cache, there * size, len(hashes) * size)
        stored = StoredBlocks(self.store, pages.memory_of(self.record, tensors))
        put = stored.put(new, range(len(new)))
        if put < len(new):
            _log.warning("the store took %d of %d blocks", put, len(new))
        return self._asked.has(hashes) * size, put  # a small pool has let go of the first ones

    def _generate(self, row: Tokens, cache: Any, arguments: dict[str, Any]) -> Any:
        """Without a mask transformers would make one that hides what looks like padding."""
        ids = torch.from_numpy(row)[None]
        seen = {"attention_mask": torch.ones_like(ids), "past_key_values": cache}
        return self.model.generate(ids, **(arguments | seen))


def _sequence(output: Any) -> Tokens:
    """Prompt and answer, of whichever kind the output is."""
    return refused.row_of(getattr(output, "sequences", output))
