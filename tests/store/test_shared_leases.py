"""Whatever users, readers and evictors do, and wherever in it users raise words: what is leased in
shared memory stays, and nothing else is wrong.

A user that leases finds the object, raises its word, possibly in the middle of a sweep, and looks
whether the same object stands there when no sweep is under way: then it is promised.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvferry.store import Cause
from tests.store.shared import POINTS, Interrupted, words_for
from tests.store.test_model import LIMITS, CatalogModel, Stored, digests, keys

Raised = tuple[int, int, int]  # slot, generation, until


class LeasingModel(CatalogModel):
    def _shared(self, slots: int) -> Any:
        self.shared = Interrupted(words_for(self.ledger.index))
        self.raised: list[Raised] = []  # and not rechecked yet
        self.promised: dict[int, int] = {}  # generation: until when it was said to stay
        return self.shared

    @rule(wanted=keys, lifetime=st.integers(1, LIMITS.longest_lease))
    def raise_words(self, wanted: list[int], lifetime: int) -> None:
        for raised in self._probe(wanted, lifetime):
            self._raise(raised)

    @rule(wanted=keys, lifetime=st.integers(1, 50), point=st.sampled_from(POINTS))
    def raise_words_in_a_sweep(self, wanted: list[int], lifetime: int, point: str) -> None:
        for raised in self._probe(wanted, lifetime):
            self.shared.at(point, partial(self._raise, raised))

    @precondition(lambda self: self.raised)
    @rule()
    def recheck(self) -> None:
        standing = self._slots()
        for slot, generation, until in self.raised:
            if standing.get(generation) == slot:
                self.promised[generation] = max(self.promised.get(generation, 0), until)
        self.raised.clear()

    def _probe(self, wanted: list[int], lifetime: int) -> list[Raised]:
        found = self.catalog.find(digests(wanted))
        until = self.now + lifetime
        return [(int(e["slot"]), int(e["generation"]), until) for e in found if e["generation"]]

    def _raise(self, raised: Raised) -> None:
        slot, _, until = raised
        self.shared.words.raise_to(slot, until)
        self.raised.append(raised)

    def _slots(self) -> dict[int, int]:
        """Of what stands, by generation."""
        index = self.ledger.index
        entries = index.scan(0, index.capacity)
        pairs = zip(entries["generation"].tolist(), entries["slot"].tolist(), strict=True)
        return dict(pairs)

    def _kept(self, stored: Stored) -> bool:
        slot = self._slots().get(stored.generation)
        return super()._kept(stored) or (
            slot is not None and self.shared.words.word(slot) > self.now
        )

    def _leave(self, number: int, cause: Cause) -> None:
        promised = self.promised.pop(self.objects[number].generation, 0)
        assert promised <= self.now, "it was leased, and left"
        super()._leave(number, cause)


class TestLeases(LeasingModel.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=10, stateful_step_count=40, deadline=None)


@pytest.mark.slow
class TestLeasesForLong(LeasingModel.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=300, stateful_step_count=60, deadline=None)
