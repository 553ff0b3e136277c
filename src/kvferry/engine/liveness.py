"""Is a peer alive? Decided from how long it has been silent. Pure.

        silent for suspect_after            silent for dead_after, or its beats ended
ALIVE ---------------------------> SUSPECT ------------------------------------------> DEAD
      <---------------------------
              it is heard

Nobody dies of silence unsuspected. Beats that ended (the peer hung up) need no suspicion.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from .. import _core
from ..errors import UsageError

__all__ = ["Limits", "Liveness", "next_state"]

SHORTEST_BEAT = 0.01  # seconds
LONGEST = 86_400.0  # seconds of silence that anybody may wait for

# Beats that may go missing before a peer is suspected, whatever its owner asked for.
MISSED = 3


class Liveness(Enum):
    """What is believed of a peer."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    DEAD = "dead"


_ALIVE, _SUSPECT, _DEAD = Liveness

_NEXT = {
    (_ALIVE, _core.SILENT): _SUSPECT,
    (_ALIVE, _core.LONG_SILENT): _SUSPECT,
    (_ALIVE, _core.BEAT_ENDED): _DEAD,
    (_SUSPECT, _core.HEARD): _ALIVE,
    (_SUSPECT, _core.LONG_SILENT): _DEAD,
    (_SUSPECT, _core.BEAT_ENDED): _DEAD,
}


def next_state(state: Liveness, reading: int) -> Liveness:
    """What is believed after a reading (_core.HEARD and its like)."""
    return _NEXT.get((state, reading), state)


class Limits(NamedTuple):
    """Seconds.

    beat           between two beats that an engine sends
    suspect_after  of silence
    dead_after     of silence
    """

    beat: float
    suspect_after: float
    dead_after: float

    def check(self) -> Limits:
        """Raises UsageError for limits by which a living peer would be suspected, or worse."""
        if not self.beat >= SHORTEST_BEAT:
            raise UsageError(f"a beat of {self.beat} s, not {SHORTEST_BEAT} or more", cause="beat")
        if not self.suspect_after >= 2 * self.beat:
            raise UsageError(
                f"suspect_after={self.suspect_after} s is less than two beats of {self.beat} s",
                cause="beat",
            )
        if not self.suspect_after + self.beat <= self.dead_after <= LONGEST:
            raise UsageError(
                f"dead_after={self.dead_after} s is not from suspect_after and a beat, "
                f"{self.suspect_after + self.beat} s, to {LONGEST:.0f} s",
                cause="beat",
            )
        return self

    def towards(self, beat: float) -> Limits:
        """Ours for a peer that beats every `beat` seconds: never below what it can keep."""
        patience = max(0.0, MISSED * beat - self.suspect_after)
        return self._replace(
            suspect_after=self.suspect_after + patience, dead_after=self.dead_after + patience
        )
