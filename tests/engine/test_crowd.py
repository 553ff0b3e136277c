"""A thousand engines of one process, each with a channel to one engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvferry.testing import Child

from .crowd import connect_many, serve

IDLE_SECONDS = 20
LIMIT = 400 << 10  # KiB of both processes, with a thousand engines
IDLE_SHARE = 0.005  # of a core


def test_a_hundred_engines_are_cheap(spawn: Callable[..., Child]) -> None:
    count = 100
    target = spawn(serve)
    address, served_before = target.hear()
    crowd = spawn(connect_many, address, count)
    before, after, _ = crowd.hear(timeout=60)
    _, served = target.ask(0.01)
    assert before + served_before + (after - before + served - served_before) * 10 < LIMIT
    crowd.tell("go on")
    assert crowd.result() == count


@pytest.mark.slow
def test_a_thousand_engines_cost_an_idle_target_half_a_per_cent(
    spawn: Callable[..., Child],
) -> None:
    count = 1000
    target = spawn(serve)
    address, _ = target.hear()
    crowd = spawn(connect_many, address, count)
    _, after, descriptors = crowd.hear(timeout=300)
    share, served = target.ask(IDLE_SECONDS, timeout=2 * IDLE_SECONDS)
    print(f"{after} + {served} KiB, {descriptors} descriptors, {share:.2%} of a core")
    assert after + served < LIMIT
    assert share < IDLE_SHARE
    crowd.tell("go on")
    assert crowd.result(timeout=120) == count
