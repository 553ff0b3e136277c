"""What is believed of a peer, and within which limits: no clocks, no sockets."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

import kvferry as kf
from kvferry import Liveness, _core, config
from kvferry.engine.liveness import Limits, next_state

ALIVE, SUSPECT, DEAD = Liveness
READINGS = (_core.HEARD, _core.SILENT, _core.LONG_SILENT, _core.BEAT_ENDED)


def test_every_state_and_reading() -> None:
    table = {
        ALIVE: [ALIVE, SUSPECT, SUSPECT, DEAD],
        SUSPECT: [ALIVE, SUSPECT, DEAD, DEAD],
        DEAD: [DEAD, DEAD, DEAD, DEAD],
    }
    for state, expected in table.items():
        assert [next_state(state, reading) for reading in READINGS] == expected


def test_nobody_dies_of_silence_unsuspected() -> None:
    for readings in itertools.product(READINGS[:3], repeat=5):
        states = list(itertools.accumulate(readings, next_state, initial=ALIVE))
        for before, after in itertools.pairwise(states):
            assert (before, after) != (ALIVE, DEAD)
            assert before is not DEAD or after is DEAD


def test_defaults() -> None:
    options = config.from_environment({})
    assert (options.beat, options.suspect_after, options.dead_after) == (10, 30, 120)
    environment = {"KVFERRY_BEAT": "0.3", "KVFERRY_SUSPECT_AFTER": "1", "KVFERRY_DEAD_AFTER": "3"}
    options = config.from_environment(environment)
    assert (options.beat, options.suspect_after, options.dead_after) == (0.3, 1, 3)


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (Limits(0, 30, 120), "a beat of 0 s"),
        (Limits(float("nan"), 30, 120), "a beat of nan s"),
        (Limits(10, 15, 120), "less than two beats"),
        (Limits(10, 30, 35), "dead_after=35 s"),
        (Limits(10, 30, float("nan")), "dead_after=nan s"),
        (Limits(10, 30, 1e6), "to 86400 s"),
    ],
)
def test_limits_that_would_kill_the_living_are_refused(limits: Limits, says: str) -> None:
    with pytest.raises(kf.UsageError, match=says) as caught:
        limits.check()
    assert caught.value.cause == "beat"
    beat, suspect_after, dead_after = limits
    options = dataclasses.replace(
        config.from_environment(), beat=beat, suspect_after=suspect_after, dead_after=dead_after
    )
    with pytest.raises(kf.UsageError, match=says):
        kf.Engine("127.0.0.1:0", options=options)


def test_a_peer_that_beats_slowly_is_given_three_of_its_beats() -> None:
    ours = Limits(0.3, 1, 3)
    assert ours.towards(0.3) == ours
    assert ours.towards(10) == Limits(0.3, 30, 32)
    assert Limits(10, 30, 120).towards(0.3) == Limits(10, 30, 120)
