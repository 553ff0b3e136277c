"""Waiting until no transfer uses a region any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import _core
from ..errors import ClosedError, NotQuiet
from .deadline import deadline_after

if TYPE_CHECKING:
    from .channel import Channel

__all__ = ["drain"]

# Seconds between two looks for transfers that ended and that nobody waits for.
LOOK_AGAIN = 0.02


def drain(span: _core.Span, channels: Sequence[Channel], grace: float, text: str) -> None:
    """Block until nobody holds the gate of a closed span, over any of `channels`.

    Transfers over it may end by themselves for `grace` seconds, then they are aborted. Raises
    NotQuiet when it takes as long again.
    """
    if _emptied(span, channels, grace):
        return
    for channel in channels:
        for transfer in channel.using(span):
            channel.abort(transfer, ClosedError(text, cause="revoked", peer=channel.peer))
    if not _emptied(span, channels, grace):
        raise NotQuiet(
            f"{text}, and a copy over it is not quiet",
            peer=", ".join(channel.peer for channel in channels),
            wait_quiet=lambda timeout: _emptied(span, channels, timeout),
        )


def _emptied(span: _core.Span, channels: Sequence[Channel], timeout: float | None) -> bool:
    deadline = None if timeout is None else deadline_after(timeout)
    while not span.drain(deadline_after(LOOK_AGAIN)):
        for channel in channels:
            channel.settle_quiet_ones()
        if deadline is not None and _core.now() >= deadline:
            return span.drain(_core.now())
    return True
