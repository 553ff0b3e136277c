"""The target ends and comes back on the same address, again and again."""

from __future__ import annotations

from .census import NEW, OLD
from .crew import Crew
from .party import PATIENCE

__all__ = ["restart"]


def restart(crew: Crew, path: str, lives: int, *, kill: bool) -> None:
    """Every life has another epoch: what belongs to the one before is refused, a new channel works.

    kill  the process is killed each time; else its engine is closed and the next one is opened
    """
    a, b, c = crew.players
    for player in crew.players:
        player.open()
    c.calm(a.address, path)
    a.allocate(NEW)
    b.allocate(OLD)
    assert a.connect(b.address, path, PATIENCE) == "done"
    assert a.transfer("write", PATIENCE) == "done"
    held: list[int] = []
    for life in range(lives):
        if kill:
            b.kill()
            b.renew()
        else:
            b.close()
        b.open(b.address)
        b.allocate(OLD)
        old, stale, new = a.restarted(b.address, path)
        assert old in ("PeerError", "ClosedError"), f"life {life}: {old}"
        assert (stale, new) == ("ClosedError", "done"), f"life {life}: {stale}, {new}"
        assert b.count(OLD, NEW).complete, f"life {life}: wrong bytes"
        held.append(a.held_descriptors())
    assert max(held) <= max(held[:2]), f"descriptors after each life: {held}"
    c.more(2)
    c.end_calm()
    assert a.disconnect() == "done"
    for player in (c, a, b):
        player.close()
