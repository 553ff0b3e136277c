"""Peers that die, restart or were never there; and which lessons are shown elsewhere, or wait."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kvferry as kf
from kvferry.testing import Child, Parent

MIB = 1 << 20
TESTS = Path(__file__).parents[1]

SHOWN = {
    "C5": "engine/test_bad_input.py::test_descriptors_that_wrap_or_are_empty",
    "C8": "memory/test_resolve.py::test_refused_before_anything_moves",
    "D1": "engine/test_outcomes.py::test_a_timeout_that_becomes_quiet_leaves_no_late_write",
    "D2": "engine/test_conversation.py::test_a_notification_comes_after_the_bytes",
    "D4": "engine/test_conversation.py::test_a_notification_comes_after_the_bytes",
    "D6": "engine/test_conversation.py::test_a_notification_after_a_failed_transfer_is_not_sent",
    "D8": "engine/test_lock_discipline.py::test_transfers_are_polled_in_any_order_while_others_"
    "are_settled_and_ended",
    "D9": "engine/test_outcomes.py::test_slots_of_dropped_transfers_come_back",
    "E1": "engine/test_peer_death.py::"
    "test_a_restarted_peer_is_connected_anew_and_old_handles_are_refused",
    "E3": "engine/test_peer_death.py::"
    "test_a_restarted_peer_is_connected_anew_and_old_handles_are_refused",
    "E4": "engine/test_peer_death.py::"
    "test_a_restarted_peer_is_connected_anew_and_old_handles_are_refused",
    "E9": "engine/test_heartbeat.py::test_who_holds_its_interpreter_in_c_lives",
    "E13": "engine/test_peer_death.py::"
    "test_a_restarted_peer_is_connected_anew_and_old_handles_are_refused",
}

STORE = "there is no store yet"
LATER = {
    "A2": "there is no metadata service yet",
    "A4": "about releases",
    "A5": "kvferry needs Linux",
    "A6": "no library of a device is linked",
    "A7": "no device yet",
    "A8": STORE,
    "C7": "no network card registers memory",
    "C10": STORE,
    "C12": "no device memory yet",
    "D5": "paged KV has the parts",
    **dict.fromkeys(("E5", "E6", "E7", "E8", "E10"), STORE),
    "N4": "there is no call that warms peers yet",
    "O1": "no counter of failures yet",
}
ROWS = {
    *(f"A{n}" for n in range(1, 9)),
    *(f"B{n}" for n in range(1, 6)),
    *(f"C{n}" for n in range(1, 13)),
    *(f"D{n}" for n in range(1, 12)),
    *(f"E{n}" for n in range(1, 14)),
    *("J5", "N1", "N4", "O1", "O4"),
}

Spawn = Callable[..., Child]


def serve(parent: Parent, address: str) -> None:
    with kf.Engine(address) as engine:
        np.frombuffer(engine.allocate("kv", MIB), np.uint8)[:] = 4
        parent.tell(engine.addresses[0])
        for _ in parent:
            pass


def test_every_lesson_is_here_or_shown_elsewhere_or_waits() -> None:
    names = " ".join(
        name
        for file in Path(__file__).parent.glob("test_*.py")
        for name in re.findall(r"def test_((?:[a-z]\d+_)+)", file.read_text())
    )
    here = {each.upper() for each in re.findall(r"[a-z]\d+", names)}
    assert ROWS - here - SHOWN.keys() == LATER.keys() - here
    assert SHOWN.keys() | LATER.keys() <= ROWS


@pytest.mark.parametrize("lesson", SHOWN)
def test_what_is_shown_elsewhere_exists(lesson: str) -> None:
    file, name = SHOWN[lesson].split("::")
    assert f"def {name}(" in (TESTS / file).read_text()


@pytest.mark.parametrize(
    ("path", "lives"), [("fabric/host", 2), pytest.param("tcp/host", 6, marks=pytest.mark.slow)]
)
def test_e2_e11_a_peer_may_restart_any_number_of_times(spawn: Spawn, path: str, lives: int) -> None:
    """On one address. The survivor's next call works or raises, and nothing is out of step."""
    with kf.Engine() as ours:
        address, back = "127.0.0.1:0", np.zeros(MIB, np.uint8)
        for turn in range(lives):
            target = spawn(serve, address)
            address = target.hear()
            peer = ours.connect(address, path=path, timeout=10)
            batch = kf.Batch.of(back, peer.regions["kv"])
            peer.read(batch, timeout=10)
            assert (back == 4).all(), turn
            back[:] = 0
            target.kill()
            with pytest.raises(kf.Error):
                peer.read(batch, timeout=10)
