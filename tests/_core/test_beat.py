"""The door to beats: what is told, once, of sockets that speak, fall silent and end."""

from __future__ import annotations

import errno
import os
import select
import socket
from collections.abc import Iterator

import pytest

from kvferry import _core

MS = 1_000_000
FOREVER = 1 << 62


@pytest.fixture
def beats() -> Iterator[_core.Beats]:
    found = _core.Beats(20 * MS)
    yield found
    found.stop()
    found.drop()


def rung(beats: _core.Beats) -> bool:
    ready, _, _ = select.select([beats.bell], [], [], 10)
    if ready:
        os.eventfd_read(beats.bell)
    return bool(ready)


def test_a_peer_that_beats_is_beaten_to(beats: _core.Beats) -> None:
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    code, number = beats.add(ours.detach(), False, 60_000 * MS, FOREVER)
    assert code == 0
    with theirs:
        for _ in range(3):
            assert theirs.recv(1) == _core.BEAT
        assert beats.news() == []
        beats.remove(number)
        assert theirs.recv(64).strip(_core.BEAT) == b""
        while theirs.recv(64):
            pass  # closed at last


def test_silence_is_told_once_and_the_end_too(beats: _core.Beats) -> None:
    ours, theirs = socket.socketpair()
    _, number = beats.add(ours.detach(), True, 60 * MS, FOREVER)
    assert rung(beats)
    assert beats.news() == [(number, _core.SILENT)]
    assert beats.news() == []
    theirs.send(_core.BEAT)
    assert rung(beats)
    assert beats.news() == [(number, _core.HEARD)]
    theirs.close()
    assert rung(beats)
    assert beats.news() == [(number, _core.BEAT_ENDED)]


def test_one_hundred_ends_are_told_in_two_goes(beats: _core.Beats) -> None:
    pairs = [socket.socketpair() for _ in range(100)]
    numbers = {beats.add(ours.detach(), True, FOREVER, FOREVER)[1] for ours, _ in pairs}
    for _, theirs in pairs:
        theirs.close()
    told: list[tuple[int, int]] = []
    while len(told) < 100:
        assert rung(beats)
        told += beats.news()
    assert {number for number, _ in told} == numbers
    assert {reading for _, reading in told} == {_core.BEAT_ENDED}


def test_nothing_is_added_after_the_end(beats: _core.Beats) -> None:
    beats.stop()
    ours, theirs = socket.socketpair()
    code, _ = beats.add(ours.detach(), True, FOREVER, FOREVER)
    assert code == errno.ESHUTDOWN
    with theirs:
        assert theirs.recv(1) == b""
    beats.remove(1)
    assert beats.news() == []
