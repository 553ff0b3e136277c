"""``kvferry top``."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ..config import from_environment
from ..errors import PeerError, UsageError
from .node import default_address

if TYPE_CHECKING:
    from ..store.seen import Snapshot
    from ..store.survey import Survey

__all__ = ["top"]

SHORTEST, LONGEST = 0.1, 3600.0
GLANCE = 0.5  # seconds between the two looks from which one picture is made


def top(
    address: Annotated[
        str | None,
        typer.Argument(help="of a directory or a node [default: this host's]", show_default=False),
    ] = None,
    every: Annotated[float, typer.Option(help="seconds from one look to the next")] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="one picture, as without a terminal")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="what was seen, once, as JSON")] = False,
    url: Annotated[
        bool, typer.Option("--url", help="where the live page is; holds the key")
    ] = False,
) -> None:
    """Look at a store: nodes, hits and misses, bytes and their ways, tenants. Ends with Ctrl-C."""
    from ..store.survey import Survey

    if not SHORTEST <= every <= LONGEST:
        raise UsageError(f"{every} seconds is none between two looks", cause="every")
    options = from_environment()
    with Survey(address or default_address(options), options=options) as survey:
        if url:
            print(_url(survey))
        elif json:
            print(_json(survey))
        elif once or not sys.stdout.isatty():
            _glance(survey, min(every, GLANCE))
        else:
            _watch(survey, every)


def _url(survey: Survey) -> str:
    from ..watch import key_of, url_of

    page = _seen(survey).page
    if not page:
        raise UsageError("there is no page: nobody was started with --http", cause="no_page")
    return url_of(page, key_of(survey.derive))


def _json(survey: Survey) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(_seen(survey))).decode()


def _seen(survey: Survey) -> Snapshot:
    """Raises PeerError when nothing was."""
    snapshot = survey.take()
    if snapshot.why and not snapshot.nodes:
        raise PeerError(f"nothing is seen of {survey.address}: {snapshot.why}", cause="unseen")
    return snapshot


def _glance(survey: Survey, seconds: float) -> None:
    from rich.console import Console

    from ..watch import view_of
    from ..watch.terminal import drawn

    before = _seen(survey)
    time.sleep(seconds)
    after = survey.take()
    console = Console()
    console.print(drawn(view_of(before, after, time.monotonic()), console.width))


def _watch(survey: Survey, every: float) -> None:
    from rich.live import Live

    from ..watch import view_of
    from ..watch.terminal import drawn

    now: Snapshot = _seen(survey)
    past: Snapshot | None = None
    try:
        with Live(screen=True, auto_refresh=False) as live:
            while True:
                view = view_of(past, now, time.monotonic())
                live.update(drawn(view, live.console.width), refresh=True)
                time.sleep(every)
                past, now = now, survey.take()
    except KeyboardInterrupt:
        return
