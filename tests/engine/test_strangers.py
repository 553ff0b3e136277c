"""What reaches the ports and the door of an engine from somebody who is not a friend."""

from __future__ import annotations

import contextlib
import itertools
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kvferry as kf
from kvferry.engine import messages
from kvferry.memory import RegionRecord
from kvferry.rpc import LIMIT_BEFORE_AUTHENTICATION
from kvferry.rpc.wire import Kind
from kvferry.testing.faults.mutations import HUGE_BODIES, LOADED, PICKLE
from kvferry.testing.faults.stranger import Stranger

from .conftest import MIB

PORTS = ["tcp", "unix", "door"]
PURPOSES = [messages.CONTROL, messages.DATA, messages.BEAT]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[kf.Engine]:
    monkeypatch.chdir(tmp_path)
    with kf.Engine("127.0.0.1:0", f"unix://{tmp_path / 'engine'}") as engine:
        engine.allocate("kv", MIB)
        yield engine
        assert not (tmp_path / LOADED).exists()


def dial(engine: kf.Engine, port: str = "tcp") -> Stranger:
    places = dict(zip(PORTS, (*engine.addresses, engine._front._door), strict=True))
    return Stranger.at(places[port])


def serves_friends(engine: kf.Engine) -> bool:
    with kf.Engine() as friend:
        return set(friend.connect(engine.addresses[0]).regions) == {"kv"}


fuzz = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ports = st.sampled_from(PORTS)


@fuzz
@given(junk=st.binary(max_size=2000), port=ports)
def test_junk_gets_nothing(engine: kf.Engine, junk: bytes, port: str) -> None:
    with dial(engine, port) as stranger:
        stranger.send(junk)
        stranger.end()
        while (said := stranger.hear()) is not None:
            assert isinstance(said, messages.Refusal)


@fuzz
@given(body=st.binary(max_size=500), port=ports)
def test_whole_frames_of_junk_are_refused(engine: kf.Engine, body: bytes, port: str) -> None:
    with dial(engine, port) as stranger:
        said = stranger.ask(body)
        assert isinstance(said, messages.Refusal)
        assert said.cause == "protocol"


@pytest.mark.parametrize("port", PORTS)
def test_what_promises_more_than_it_is_gets_a_refusal(engine: kf.Engine, port: str) -> None:
    for body, purpose in itertools.product((PICKLE, *HUGE_BODIES), (None, *PURPOSES)):
        with dial(engine, port) as stranger:
            if purpose is not None:
                assert isinstance(stranger.hello(purpose), messages.Challenge)
            said = stranger.ask(body)
            assert isinstance(said, messages.Refusal)
            assert said.cause == "protocol"


@pytest.mark.parametrize("body", HUGE_BODIES, ids=lambda body: repr(body[:30]))
def test_no_body_before_the_proof_is_large_in_memory(body: bytes) -> None:
    """Whose bytes are at most 64 KiB."""
    assert len(body) <= LIMIT_BEFORE_AUTHENTICATION
    tracemalloc.start()
    try:
        with pytest.raises(kf.PeerError):
            messages.decode(body)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


RECORD = RegionRecord(1, "kv", True, 4096, 4096, 4096, 4096, False)
UNASKED = [
    messages.ListRegions("fabric", "tcp", 0),
    messages.Call("echo", b""),
    messages.Notify("x", b""),
    messages.Announce(RECORD),
    messages.Revoke(1),
    messages.Proof(b"x" * 32, "me", messages.Facts(1, "", 0, {})),
    messages.Welcome(b"", "me", messages.Facts(1, "", 0, {}), b"", b""),
    messages.Result(b""),
]


@pytest.mark.parametrize("message", UNASKED, ids=lambda message: type(message).__name__)
def test_nothing_is_answered_before_the_proof(engine: kf.Engine, message: messages.Message) -> None:
    for purpose in (None, *PURPOSES):
        with dial(engine) as stranger:
            if purpose is not None:
                assert isinstance(stranger.hello(purpose), messages.Challenge)
            said = stranger.ask(message)
        assert isinstance(said, messages.Refusal)
        assert said.cause in ("protocol", "token")
    assert not engine.notifications(0)


def test_one_guess_a_connection(engine: kf.Engine) -> None:
    with dial(engine) as stranger:
        assert isinstance(stranger.hello(), messages.Challenge)
        facts = messages.Facts(stranger.epoch, "", 0, {})
        proof = messages.Proof(b"x" * 32, "me", facts)
        said = [stranger.ask(proof), stranger.ask(proof), stranger.hello()]
    causes = [each.cause for each in said if isinstance(each, messages.Refusal)]
    assert causes == ["token", "protocol", "protocol"]


@pytest.mark.parametrize("length", [1 << 20, 1 << 31, (1 << 32) - 1])
def test_huge_lengths_end_the_connection(engine: kf.Engine, length: int) -> None:
    for port, begun in itertools.product(PORTS, (False, True)):
        with dial(engine, port) as stranger:
            if begun:
                assert isinstance(stranger.hello(), messages.Challenge)
            stranger.send(length.to_bytes(4, "little") + bytes([Kind.REQUEST]) + bytes(11))
            assert stranger.rest() == b""


@pytest.mark.parametrize("purpose", [messages.DATA, messages.BEAT])
def test_a_ticket_that_nobody_was_given_opens_nothing(engine: kf.Engine, purpose: str) -> None:
    for port in PORTS:
        _tickets_open_nothing(engine, purpose, port)


def _tickets_open_nothing(engine: kf.Engine, purpose: str, port: str) -> None:
    with dial(engine, port) as friend:
        given = friend.prove(engine._token).ticket
        for epoch, ticket in ((friend.epoch, b""), (friend.epoch, bytes(16)), (7, given)):
            with dial(engine, port) as stranger:
                stranger.epoch = epoch
                with pytest.raises(AssertionError, match="no connection has this ticket"):
                    stranger.prove(engine._token, purpose, ticket)


def test_friends_are_served_after_all_that(engine: kf.Engine) -> None:
    silent = [dial(engine) for _ in range(20)]
    for stranger in silent[:10]:
        stranger.send(b"\x10\x00")
    assert serves_friends(engine)
    for stranger in silent:
        stranger.close()


@fuzz
@given(body=st.binary(max_size=300))
def test_decode_raises_peer_errors_only(body: bytes) -> None:
    with contextlib.suppress(kf.PeerError):
        messages.decode(body)
