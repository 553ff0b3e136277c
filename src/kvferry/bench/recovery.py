"""How soon bytes move again after the peer was killed and another one started on its port."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack

from ..engine import Engine
from ..errors import Error, Timeout
from .cases import Case
from .comparison import Recovery
from .lane import Lane
from .launch import Target, ready, start_target, starting_target
from .layouts import plain
from .session import Session
from .variants import Variant

__all__ = ["measure_recovery"]

BLOCK = 64 << 10
SLOTS = 32
WITHIN_SECONDS = 30.0
CONNECT_SECONDS = 5.0
PAUSE_SECONDS = 0.002


def measure_recovery(engine: Engine, variant: Variant) -> Recovery:
    """Kills a target of its own. Blocks for a second or two. Raises Timeout when it takes too long.

    Where the peer listens is all that is known of it again: connecting is tried until it succeeds.
    """
    token, size = engine.options.token, BLOCK * SLOTS
    assert token is not None
    case = Case(variant.path, "write", plain(BLOCK), SLOTS, SLOTS // 2, variant.streams, None)
    region = engine.allocate("recovery", size)
    try:
        with ExitStack() as stack:
            first = stack.enter_context(start_target(size, token))
            _move(case, Session(engine, region, first))
            begin = time.monotonic_ns()
            _kill(first.pid)
            second = stack.enter_context(starting_target(size, token, first.address))
            target = Target(second.pid, first.address)
            session = Session(engine, region, target, patience=CONNECT_SECONDS)
            lane, attempts = _until_moved(case, session, begin)
            end = time.monotonic_ns()
            there = ready(second).at
            return Recovery(
                back_ms=round((end - begin) / 1e6, 1),
                start_ms=round((there - begin) / 1e6, 1),
                attempts=attempts,
                verified=lane.verify().good,
            )
    finally:
        engine.unregister(region)


def _kill(pid: int) -> None:
    """A child; dead when this returns, and not reaped."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def _until_moved(case: Case, session: Session, begin: int) -> tuple[Lane, int]:
    attempts = 0
    while True:
        attempts += 1
        try:
            return _move(case, session), attempts
        except (Error, KeyError) as error:  # nobody there yet, or somebody without memory
            if time.monotonic_ns() - begin > WITHIN_SECONDS * 1e9:
                raise Timeout(
                    f"not back within {WITHIN_SECONDS:.0f} s over {case.path}: {error}",
                    cause="recovery",
                ) from error
        time.sleep(PAUSE_SECONDS)


def _move(case: Case, session: Session) -> Lane:
    """One transfer."""
    lane = Lane(case, session)
    (batch, *_) = lane.batches(next(case.passes()))
    lane.call(batch)
    return lane
