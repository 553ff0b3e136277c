"""Which paths work here, from end to end?"""

from __future__ import annotations

from ..errors import Error, PathRefused
from .cases import Case
from .crew import open_crew
from .finding import Finding, State
from .layouts import plain
from .measure import verify_case
from .shares import whole

__all__ = ["PATHS", "path_works"]

# What is tried, and how bad it is when it does not work.
PATHS = {"fabric/inline": State.FAIL, "cma/inline": State.WARN, "tcp/host": State.WARN}

BLOCK = 4 << 10
SLOTS = 32


def path_works(path: str) -> Finding:
    """Moves 64 KiB into a process of its own and compares. Blocks for about a second."""
    name = f"{path.partition('/')[0]} path"
    case = Case(path, "write", plain(BLOCK), SLOTS, SLOTS // 2, 1, None)
    try:
        with open_crew([whole(SLOTS * BLOCK)]) as crew:
            crew.prepare(case)
            verdict = verify_case(crew)
    except PathRefused as refusal:
        return Finding(name, PATHS[path], "; ".join(refusal.rejected.values()))
    except (Error, OSError) as error:
        return Finding(name, PATHS[path], f"{type(error).__name__}: {error}")
    if not verdict.good:
        return Finding(name, State.FAIL, f"bytes were wrong: {verdict}")
    return Finding(name, State.OK, "64 KiB went to another process, every byte where it belongs")
