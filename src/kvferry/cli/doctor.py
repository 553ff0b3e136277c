"""``kvferry doctor``."""

from __future__ import annotations

import typer

__all__ = ["doctor"]

BROKEN = 1


def doctor() -> None:
    """Examines this machine: what works, what does not, why not and what to do about it."""
    from ..bench import examine
    from ..bench.endtoend import PATHS, path_works
    from ..bench.finding import State

    tried = [path_works(path) for path in PATHS]
    findings = [*examine(), *tried]
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print(f"{finding.state.value:<4}  {finding.name:<{width}}  {finding.detail}")
    if any(finding.state is State.FAIL for finding in tried):
        raise typer.Exit(BROKEN)
