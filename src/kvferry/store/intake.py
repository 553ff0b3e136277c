"""What the ledger did, as the catalog's parts learn of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .answers import Cause, Digests
from .departures import Departures
from .expiry import Expiry
from .extents import Extents
from .policies import Policy
from .table import Arrivals, LedgerLike
from .witness import Witness

__all__ = ["Intake"]


class Intake:
    """Objects arrive in the policy, some with a moment to expire at; extents return to the pool."""

    def __init__(
        self,
        ledger: LedgerLike,
        extents: Extents,
        policy: Policy,
        expiry: Expiry,
        departures: Departures,
        witnesses: Sequence[Witness] = (),
    ) -> None:
        self._ledger = ledger
        self._extents = extents
        self._policy = policy
        self._expiry = expiry
        self._departures = departures
        self._witnesses = witnesses

    def take(self) -> bool:
        """Learn of all that happened since the last time; False: nothing."""
        if not self._ledger.pending:
            return False
        arrived, offsets, rooms, refused = self._ledger.arrivals()
        if len(arrived):
            self._admit(arrived)
        self._extents.give(offsets, rooms)
        self.refuse(refused)
        return True

    def refuse(self, digests: Digests) -> None:
        """These were not stored."""
        if len(digests):
            self._departures.remember(digests, Cause.REFUSED)

    def _admit(self, arrived: Arrivals) -> None:
        slots, parents = arrived["slot"].astype(np.int64), arrived["parent"].astype(np.int64)
        prints, rooms = np.array(arrived["print"]), np.array(arrived["room"])
        self._expiry.tell(slots, arrived["expires"])
        self._policy.insert(slots, rooms, prints, parents)
        self._departures.turnover.came(len(rooms), int(rooms.sum()))
        if self._witnesses:
            entries = self._ledger.index.read(slots)
            for witness in self._witnesses:
                witness.came(entries)
