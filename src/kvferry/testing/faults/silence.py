"""A peer that lives and reads nothing: neither its control socket nor its wires."""

from __future__ import annotations

from .census import NEW, OLD
from .crew import Crew
from .party import PATIENCE
from .scenario import Side

__all__ = ["silence"]

SECONDS = 0.5
REGIONS = 3

# How what is said to a peer may end that takes nothing: its socket, then our buffer is full.
UNREAD = {"Timeout", "NotQuiet", "Full", "PeerError", "ClosedError"}


def silence(crew: Crew, path: str, side: Side) -> None:
    """The other side says more than fits; all its calls are bounded, and it serves others."""
    a, b, c = crew.players
    silent, loud = (a, b) if side is Side.INITIATOR else (b, a)
    for player in crew.players:
        player.open()
    c.calm(loud.address, path)
    a.allocate(NEW)
    b.allocate(OLD)
    assert a.connect(b.address, path, PATIENCE) == "done"
    assert a.attach() == "done"
    if silent is a:
        a.submit("read")  # over wires, the target serves it; nobody reads the answers
        a.let(1)
    silent.child.stop()
    if loud is a:
        ends = set(a.flood(SECONDS))
        assert ends & UNREAD, ends
        # Mapped memory, and memory that the kernel copies, need no reader.
        assert ends <= UNREAD | {"done"}, ends
    else:
        b.make_and_take(REGIONS)
    c.more(2)
    silent.child.resume()
    if silent is a:
        assert a.finish(PATIENCE) in ("done", "PeerError", "ClosedError")
        a.fill(NEW)
    assert a.connect(b.address, path, PATIENCE) == "done"
    assert a.transfer("write", PATIENCE) == "done"
    assert b.count(OLD, NEW).complete
    c.end_calm()
    assert a.disconnect() == "done"
    for player in (c, a, b):
        player.close()
