"""Security as users of other engines met it: what arrives from outside, and what it may not do.

LESSONS maps each lesson to the tests that show it. Not here: mutual TLS (M4), which there is none
of yet, and endpoints over HTTP (M5).
"""

from __future__ import annotations

import ast
import random
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kvferry as kf
from kvferry import _core
from kvferry.engine import messages
from kvferry.rpc import LIMIT
from kvferry.rpc.wire import Kind, encode
from kvferry.testing import Child
from kvferry.testing.faults.frames import ANSWER_MAGIC, request
from kvferry.testing.faults.mutations import HUGE_BODIES, LOADED, PICKLE
from kvferry.testing.faults.proxy import Proxy
from kvferry.testing.faults.stranger import Stranger
from kvferry.testing.faults.units import Case, Way

from . import hostile

MIB = 1 << 20
PAGE = 4096
WHOLE = 1 << 64

HERE = "tests/field/test_security.py"
PYTHON = "tests/field/test_python.py"
LESSONS = {
    "M1 pickle, junk, huge lengths": [
        f"{HERE}::test_hostile_bytes_at_any_port_leave_memory_flat_and_load_no_pickle",
        f"{HERE}::test_a_hostile_server_leaves_the_memory_of_its_client_flat",
        f"{HERE}::test_what_is_no_beat_ends_the_beats_and_the_channel",
        f"{HERE}::test_an_engine_that_was_told_no_address_listens_nowhere",
        "tests/engine/test_hostile_bytes.py::test_a_fault_on_the_way_harms_nobody",
        "tests/engine/test_strangers.py::test_what_promises_more_than_it_is_gets_a_refusal",
        "tests/engine/test_strangers.py::test_huge_lengths_end_the_connection",
        "tests/test_layers.py::test_the_package_keeps_its_layers",
    ],
    "M2 addresses that a peer supplies": [
        f"{HERE}::test_addresses_that_were_not_offered_are_refused_either_way",
        f"{HERE}::test_a_refused_wire_leaves_no_thread_that_spins",
        f"{HERE}::test_wires_end_at_both_ends",
        f"{HERE}::test_who_registered_nothing_reads_and_writes_over_tcp",
    ],
    "M3 lengths that a peer supplies": [
        "tests/link/test_tcp_fuzz.py::test_a_malformed_header_ends_the_wire",
        "tests/link/test_tcp_fuzz.py::test_a_forged_answer_ends_the_wire",
        "tests/link/test_tcp_fuzz.py::test_a_frame_is_denied_as_a_whole_and_the_next_is_served",
        "tests/rpc/test_wire.py::test_a_bad_header_is_refused_before_its_body",
    ],
    "M6 a subscriber that never reads": [
        f"{HERE}::test_a_peer_that_never_reads_slows_nobody",
        "tests/engine/test_conversation.py::test_a_peer_that_does_not_listen_to_news_delays_no_other",
        "tests/rpc/test_poller.py::test_a_peer_that_stops_reading_delays_nobody_and_is_lost_in_the_end",
    ],
    "P1 interrupts": [
        f"{PYTHON}::test_an_interrupt_ends_what_the_main_thread_waits_for",
        "tests/engine/test_interrupts.py::test_nothing_lands_after_an_interrupted_read",
        "tests/engine/test_interrupts.py::test_after_an_interrupted_call_the_next_connect_works",
        "tests/engine/test_interrupts.py::test_closing_is_taken_up_again",
    ],
    "P2 somebody holds the GIL": [
        f"{PYTHON}::test_peers_go_on_while_a_thread_holds_the_gil",
        "tests/link/test_tcp.py::test_the_target_takes_no_part",
    ],
    "P3 one connection, many threads": [
        f"{PYTHON}::test_many_threads_on_one_channel_get_their_own_answers",
        "tests/rpc/test_connection.py::test_many_callers_get_their_own_replies",
        "tests/rpc/test_poller.py::test_hostile_bytes_end_their_own_connection",
    ],
    "P4 fork": [
        "tests/engine/test_fork.py::test_calls_in_a_child_raise_and_descriptors_are_closed",
        "tests/engine/test_fork.py::test_a_child_may_make_engines_of_its_own",
        "tests/engine/test_two_processes.py::test_one_inline_write_of_64_kib",
    ],
    "P5 asyncio leaves nothing pending": [
        f"{PYTHON}::test_no_task_is_pending_after_close_in_debug_mode",
    ],
    "P6 cancelled at any point": [
        f"{PYTHON}::test_cancelled_at_any_point_the_next_read_is_right_and_pools_are_whole",
        "tests/engine/test_awaiting.py::test_cancelling_an_await_cancels_the_transfer_and_ends_after_quiet",
    ],
    "P7 awaits do not cost threads": [
        f"{PYTHON}::test_many_awaits_take_no_threads",
    ],
    "P8 memory under way is held": [
        "tests/engine/test_conversation.py::test_unregistering_waits_for_transfers",
        "tests/engine/test_conversation.py::test_unregistered_memory_lives_until_the_last_buffer_of_it",
        "tests/link/test_tcp.py::test_unregistering_does_not_wait_for_a_peer_that_stands_still",
    ],
    "P9 memory is flat over very many transfers": [
        f"{PYTHON}::test_memory_is_flat_over_very_many_transfers",
    ],
}


def test_the_tests_of_every_lesson_exist() -> None:
    root = Path(__file__).parents[2]
    named = [test.split("::") for tests in LESSONS.values() for test in tests]
    for file in {file for file, _ in named}:
        tree = ast.walk(ast.parse((root / file).read_text()))
        there = {node.name for node in tree if isinstance(node, ast.FunctionDef)}
        missing = {name for each, name in named if each == file} - there
        assert not missing, f"{file}: {missing}"


# ---- M1 ----

RUBBISH = [PICKLE, b"\xff" * 64, bytes(64), random.Random(1).randbytes(60_000)]
HEADERS = [
    length.to_bytes(4, "little") + bytes([Kind.REQUEST]) + bytes(11)
    for length in (1 << 16, LIMIT, 1 << 31, (1 << 32) - 1)
]
BODIES = [encode(Kind.REQUEST, 1, body) for body in (PICKLE, *HUGE_BODIES)]
FRAMES = [
    request(op, [(0, 1)], **changed)
    for op in (_core.WRITE, _core.READ)
    for changed in (
        {"bytes": MIB},
        {"bytes": 1 << 31},
        {"bytes": 1 << 63},
        {"pieces": 1024},
        {"pieces": (1 << 32) - 1},
    )
]
HOSTILE = [*RUBBISH, *HEADERS, *BODIES, *FRAMES]


def attack(where: list[str | bytes], token: bytes, bad: bytes) -> None:
    """At every port: before Hello, before the proof, and behind it for each purpose."""
    for port in where:
        for begun in (False, True):
            with Stranger.at(port) as stranger:
                assert not begun or isinstance(stranger.hello(), messages.Challenge)
                throw(stranger, bad)
        with Stranger.at(port) as friend:
            ticket = friend.prove(token).ticket
            for purpose in (messages.DATA, messages.BEAT):
                with Stranger.at(port) as stranger:
                    stranger.epoch = friend.epoch
                    stranger.prove(token, purpose, ticket)
                    throw(stranger, bad)
            throw(friend, bad)


def throw(stranger: Stranger, bad: bytes) -> None:
    """And see the engine hang up, once we said that there is no more."""
    stranger.send(bad)
    stranger.end()
    stranger.rest()


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Also: processes that begin now work in a folder where a loaded pickle would show."""
    monkeypatch.chdir(tmp_path)
    yield str(tmp_path / "token")
    assert not (tmp_path / LOADED).exists()


def test_hostile_bytes_at_any_port_leave_memory_flat_and_load_no_pickle(
    spawn: Callable[..., Child], token: str, tmp_path: Path
) -> None:
    child = spawn(hostile.serve, str(tmp_path / "engine"), token)
    tcp, unix, door = child.hear()
    ports = [tcp, unix, bytes.fromhex(door)]
    for bad in 2 * HOSTILE:  # what threads and tables take that stay
        attack(ports, token.encode(), bad)
    before = child.ask("reset")
    for bad in HOSTILE:
        attack(ports, token.encode(), bad)
    assert child.ask("peak") - before < MIB


def test_a_hostile_server_leaves_the_memory_of_its_client_flat(
    spawn: Callable[..., Child], token: str, tmp_path: Path
) -> None:
    server = spawn(hostile.serve, str(tmp_path / "engine"), token)
    _, address, _ = server.hear()
    client = spawn(hostile.connect, token)
    with Proxy.to(address, f"unix://{tmp_path / 'proxy'}") as proxy:

        def meet_all() -> set[str]:
            said = set()
            for seed, (mutation, unit) in enumerate(HOSTILE_ANSWERS):
                proxy.case = Case(mutation, seed, Way.TO_CLIENT, unit)
                said.add(client.ask(proxy.address))
            return said

        assert "done" not in meet_all()
        before = client.ask("reset")
        meet_all()
        assert client.ask("peak") - before < MIB
        proxy.case = None
        assert client.ask(proxy.address) == "no_service"  # and what went before is right


# To Hello, to Proof, to the list of regions.
HOSTILE_ANSWERS = [
    (mutation, unit)
    for mutation in ("huge_length", "huge_inside", "unpickle_me", "wrong_message")
    for unit in (0, 1, 2)
]


def test_an_engine_that_was_told_no_address_listens_nowhere() -> None:
    with kf.Engine() as engine:
        assert engine.addresses == ()
        assert engine._front._sockets == []
    with kf.Engine("127.0.0.1:0") as engine:
        families = {sock.family: sock for sock, _ in engine._front._sockets}
        assert set(families) == {socket.AF_INET, socket.AF_UNIX}
        assert families[socket.AF_INET].getsockname()[0] == "127.0.0.1"


class Owner:
    """An engine with memory that may be written, may be read, and may not be touched."""

    def __init__(self) -> None:
        options = replace(kf.config.from_environment(), beat=hostile.BEAT)
        self.engine = kf.Engine("127.0.0.1:0", options=options)
        self.memory = np.full(5 * PAGE, 9, np.uint8)
        self.fixed = np.full(PAGE, 8, np.uint8)
        self.fixed.flags.writeable = False
        self.address = self.memory.ctypes.data + PAGE
        self.engine.register("kv", self.memory[PAGE : 2 * PAGE])
        self.engine.register("fixed", self.fixed)

    @property
    def wires(self) -> int:
        return self.engine._tcp._server.wires

    def wire(self, purpose: str = messages.DATA) -> tuple[Stranger, Stranger]:
        """A control connection of one who holds the token, and a wire of its, or its beats."""
        friend, stranger = (Stranger.at(self.engine.addresses[0]) for _ in range(2))
        stranger.epoch = friend.epoch
        self.ticket = friend.prove(self.engine._token).ticket
        stranger.prove(self.engine._token, purpose, self.ticket)
        return friend, stranger


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture
def owner() -> Iterator[Owner]:
    owner = Owner()
    with owner.engine:
        yield owner
    eventually(lambda: owner.wires == 0)
    assert (owner.memory == 9).all()
    assert (owner.fixed == 8).all()


@pytest.mark.parametrize("bad", [b"L", b"KKK\0", PICKLE, bytes(1000), HEADERS[-1], BODIES[1]])
def test_what_is_no_beat_ends_the_beats_and_the_channel(owner: Owner, bad: bytes) -> None:
    friend, beats = owner.wire(messages.BEAT)
    with friend, beats:
        beats.send(b"K")
        assert beats.take(1) == b"K"
        beats.send(bad)
        assert set(beats.rest()) <= set(b"K")
        assert friend.rest() == b""


def test_one_connection_beats_for_a_channel(owner: Owner) -> None:
    friend, beats = owner.wire(messages.BEAT)
    with friend, beats:
        beats.send(b"K")
        assert beats.take(1) == b"K"
        with Stranger.at(owner.engine.addresses[0]) as second:
            second.epoch = friend.epoch
            with pytest.raises(AssertionError, match="it has beats already"):
                second.prove(owner.engine._token, messages.BEAT, owner.ticket)


def test_a_wire_that_is_not_served_leaves_nothing(owner: Owner) -> None:
    owner.engine._tcp._server.close()  # as when there are too many
    friend, wire = owner.wire()
    with friend, wire:
        assert wire.rest() == b""
        eventually(lambda: len(owner.engine._front._inbounds) == 1)


def test_a_flood_of_beats_is_only_beats(owner: Owner) -> None:
    friend, beats = owner.wire(messages.BEAT)
    with friend, beats:
        beats.send(b"K" * 10_000)
        assert beats.take(3) == b"KKK"
        said = friend.ask(messages.ListRegions("tcp", "tcp", 0))
        assert isinstance(said, messages.Regions)


# ---- M2, M3 ----


def test_addresses_that_were_not_offered_are_refused_either_way(owner: Owner) -> None:
    at, fixed = owner.address, owner.fixed.ctypes.data
    private = owner.memory.ctypes.data
    refused = {
        "no region": [(private, 8), (at + 2 * PAGE, 8), (0, 8), (8, 8), (1 << 47, 8)],
        "leaves": [(at - 4, 8), (at + PAGE - 4, 8), (at, PAGE + 1)],
        "wraps": [(at, WHOLE - at), (at + 8, WHOLE - 8), (WHOLE - 4, 8), (WHOLE - 1, 1)],
    }
    places = [place for each in refused.values() for place in each]
    friend, wire = owner.wire()
    with friend, wire:
        for run, (op, place) in enumerate((op, place) for op in OPS for place in places):
            answer_to(wire, op, [place], run + 1, denied=True)
            answer_to(wire, op, [(at, 8), place], run + 1000, denied=True)
        answer_to(wire, _core.WRITE, [(fixed, 8)], 5000, denied=True)
        answer_to(wire, _core.READ, [(fixed, 8)], 5001, denied=False)
        assert wire.take(8) == bytes([8]) * 8


OPS = (_core.WRITE, _core.READ)


def answer_to(
    wire: Stranger, op: int, places: list[tuple[int, int]], run: int, *, denied: bool
) -> None:
    """Ask, with a body of 16 bytes at most behind a write whatever the places say."""
    size = min(sum(length for _, length in places), 16)
    body = b"x" * size if op == _core.WRITE else b""
    wire.send(request(op, places, tag=run, run=run, bytes=size) + body)
    magic, status, tag, *_, moved = wire.told()
    assert (magic, status, tag) == (ANSWER_MAGIC, int(denied), run)
    assert moved == (0 if denied else size)


def test_a_refused_wire_leaves_no_thread_that_spins(owner: Owner) -> None:
    friend, wire = owner.wire()
    with friend, wire:
        answer_to(wire, _core.READ, [(0, 8)], 1, denied=True)
        another, broken = owner.wire()
        with another, broken:
            broken.send(b"no frame at all".ljust(32))
            assert broken.rest() == b""
        used = time.process_time()
        time.sleep(0.3)
        assert time.process_time() - used < 0.1


def test_wires_end_at_both_ends(owner: Owner) -> None:
    friend, wire = owner.wire()
    with friend, wire:
        eventually(lambda: owner.wires == 1)
        friend.close()  # and with it what it vouched for
        assert wire.rest() == b""
    with kf.Engine() as engine:
        peer = engine.connect(owner.engine.addresses[0], path="tcp/host")
        peer.close()
        eventually(lambda: owner.wires == 0)


def test_who_registered_nothing_reads_and_writes_over_tcp(owner: Owner) -> None:
    with kf.Engine() as engine:
        peer = engine.connect(owner.engine.addresses[0], path="tcp/host")
        ours = bytearray(PAGE)
        peer.read(kf.Batch.of(ours, peer.regions["kv"]))
        assert ours == bytes([9]) * PAGE
        peer.write(kf.Batch.of(ours, peer.regions["kv"]))


# ---- M6 ----


def test_a_peer_that_never_reads_slows_nobody(owner: Owner) -> None:
    """It asks for more than its socket takes, over control and over a wire, and reads nothing."""
    owner.engine.serve("much", lambda request: bytes(MIB))
    friend, wire = owner.wire()
    with friend, wire, kf.Engine() as engine:
        for _ in range(20):
            friend.say(messages.Call("much", b""))
        for run in range(1, 2000):
            wire.sock.settimeout(0.2)
            if not sent(wire.sock, request(_core.READ, [(owner.address, PAGE)] * 200, run=run)):
                break
        peer = engine.connect(owner.engine.addresses[0], path="tcp/host")
        ours = bytearray(PAGE)
        for _ in range(50):
            peer.read(kf.Batch.of(ours, peer.regions["kv"]), timeout=5)
        assert ours == bytes([9]) * PAGE


def sent(sock: socket.socket, data: bytes) -> bool:
    try:
        sock.sendall(data)
    except TimeoutError:
        return False
    return True
