"""Does the fabric path work here, from end to end?"""

from __future__ import annotations

from ..errors import Error
from .cases import Case
from .finding import Finding, State
from .layouts import plain
from .measure import verify_case
from .session import open_session

__all__ = ["fabric_works"]

BLOCK = 4 << 10
SLOTS = 32


def fabric_works() -> Finding:
    """Moves 64 KiB into a process of its own and compares. Blocks for about a second."""
    name = "fabric path"
    case = Case("fabric/inline", "write", plain(BLOCK), SLOTS, SLOTS // 2, 1, None)
    try:
        with open_session(SLOTS * BLOCK) as session:
            verdict = verify_case(case, session)
    except (Error, OSError) as error:
        return Finding(name, State.FAIL, f"{type(error).__name__}: {error}")
    if not verdict.good:
        return Finding(name, State.FAIL, f"bytes were wrong: {verdict}")
    return Finding(name, State.OK, "64 KiB went to another process, every byte where it belongs")
