"""Does the fabric path work here, from end to end?"""

from __future__ import annotations

from ..errors import Error
from .cases import Case
from .crew import open_crew
from .finding import Finding, State
from .layouts import plain
from .measure import verify_case
from .shares import whole

__all__ = ["fabric_works"]

BLOCK = 4 << 10
SLOTS = 32


def fabric_works() -> Finding:
    """Moves 64 KiB into a process of its own and compares. Blocks for about a second."""
    name = "fabric path"
    case = Case("fabric/inline", "write", plain(BLOCK), SLOTS, SLOTS // 2, 1, None)
    try:
        with open_crew([whole(SLOTS * BLOCK)]) as crew:
            crew.prepare(case)
            verdict = verify_case(crew)
    except (Error, OSError) as error:
        return Finding(name, State.FAIL, f"{type(error).__name__}: {error}")
    if not verdict.good:
        return Finding(name, State.FAIL, f"bytes were wrong: {verdict}")
    return Finding(name, State.OK, "64 KiB went to another process, every byte where it belongs")
