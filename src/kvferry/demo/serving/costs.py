"""Load or compute: what a token has cost so far, either way."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Costs"]

NEWEST = 0.5  # how much the last measurement counts
FADING = 0.8  # of a cost that was too high to be paid: some time it is tried again
ENOUGH = 32  # tokens; of fewer the rest of a step is most of the cost


@dataclass
class Costs:
    """Seconds a token; None: nobody knows yet.

    compute  by the model
    load     from the store, over whatever way it has
    """

    compute: float | None = None
    load: float | None = None

    def computed(self, tokens: int, seconds: float) -> None:
        if tokens >= ENOUGH:
            self.compute = _mixed(self.compute, seconds / tokens)

    def loaded(self, tokens: int, seconds: float) -> None:
        if tokens:
            self.load = _mixed(self.load, seconds / tokens)

    def loading_pays(self) -> bool:
        """What is not known yet is tried: loading first."""
        if self.load is None or self.compute is None or self.load < self.compute:
            return True
        self.load *= FADING
        return False


def _mixed(before: float | None, measured: float) -> float:
    return measured if before is None else before + NEWEST * (measured - before)
