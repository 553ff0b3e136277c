from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest

from kvferry import PeerError
from kvferry.bench import launch
from kvferry.bench.cases import Case
from kvferry.bench.endtoend import PATHS, path_works
from kvferry.bench.finding import State
from kvferry.bench.lane import Lane
from kvferry.bench.launch import start_target
from kvferry.bench.layouts import model, plain
from kvferry.bench.session import GRAIN, open_session, resident, shrink
from kvferry.bench.target import REGION, Job

MIB = 1 << 20
TOKEN = b"secret"


@pytest.mark.parametrize(
    ("asked", "free", "size"),
    [(64 * MIB, 1024 * MIB, 64 * MIB), (64 * MIB, 100 * MIB, 25 * MIB), (64 * MIB, 9, GRAIN)],
)
def test_a_side_has_at_most_a_quarter_of_what_is_free(asked: int, free: int, size: int) -> None:
    assert shrink(asked, free) == size


def test_the_target_is_gone_when_the_block_is_left() -> None:
    seen: list[int] = []

    def interrupted() -> None:
        with start_target(MIB, TOKEN) as target:
            os.kill(target.pid, 0)
            seen.append(target.pid)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(ProcessLookupError):
        os.kill(seen[0], 0)


def test_a_target_that_cannot_start_says_why() -> None:
    with pytest.raises(PeerError, match="asked for"), start_target(1 << 50, TOKEN):
        pass


def test_a_target_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "END_SECONDS", 0.0)
    with start_target(MIB, TOKEN) as target:
        pass
    with pytest.raises(ProcessLookupError):
        os.kill(target.pid, 0)


def test_the_target_ends_with_its_input() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "kvferry.bench.target"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(Job(MIB, TOKEN)) + b"\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.stdin.close()
        assert process.wait(20) == 0


def test_shared_memory_does_not_count_as_resident() -> None:
    with open_session(64 * MIB) as session:
        before = resident("self")
        np.frombuffer(session.region, np.uint8)[:] = 1
        assert resident("self") - before < 8 * MIB


@pytest.mark.parametrize("name", ["smollm2-135m", "deepseek-r1", None])
def test_a_case_is_verified_on_the_side_it_moves_to(name: str | None) -> None:
    layout = plain(4096) if name is None else model(name)
    slots = 32 * MIB // layout.slot_bytes
    with open_session(32 * MIB) as session:
        for path, op in itertools.product(["fabric/inline", "fabric/host"], ["write", "read"]):
            verdict = Lane(Case(path, op, layout, slots, slots // 2, 2, None), session).verify()
            assert verdict.good, (path, op)
            assert verdict.blocks >= slots // 2 * layout.pieces


@pytest.mark.parametrize("op", ["write", "read"])
def test_a_flipped_bit_at_the_destination_is_found(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case("fabric/inline", op, plain(4096), 16, 4, 1, None)
    with open_session(16 * 4096) as session:
        channel = session.channel(case.path, 1)
        remote = channel.regions[REGION]
        at = remote.span.here if op == "write" else session.region.address
        first, last = (ctypes.c_uint8.from_address(at + offset) for offset in (0, 16 * 4096 - 1))
        real = session.side(op == "read", channel)

        class Corrupted:
            """The destination, whose first and last byte change before it is checked."""

            def __getattr__(self, name: str) -> object:
                return getattr(real, name)

            def check(self, *arguments: object) -> object:
                first.value ^= 1
                last.value ^= 1
                return real.check(*arguments)  # type: ignore[arg-type]

        session.pattern(op == "write", channel)
        monkeypatch.setattr(session, "side", lambda ours, channel: Corrupted())
        verdict = Lane(case, session).verify()
        assert not verdict.good
        assert (verdict.blocks, verdict.wrong, verdict.stray) == (16, 2, 0)


def test_the_fabric_path_works_and_says_so() -> None:
    finding = path_works("fabric/inline")
    assert finding.state is State.OK, finding.detail


def test_a_fabric_path_that_does_not_work_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def refuse(shares: object):  # type: ignore[no-untyped-def]
        raise PeerError("not there", cause="target")
        yield

    monkeypatch.setattr("kvferry.bench.endtoend.open_crew", refuse)
    assert [path_works(path).state for path in PATHS] == list(PATHS.values())
