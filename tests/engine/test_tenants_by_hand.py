"""What a holder of one tenant's token gets of another's, by every road there is: nothing."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator

import numpy as np
import pytest

import kvferry as kf
from kvferry import _core
from kvferry.engine import messages
from kvferry.engine.handshake import ClientHandshake
from kvferry.link import Facts
from kvferry.rpc import auth
from kvferry.testing.faults.frames import request
from kvferry.testing.faults.stranger import Stranger
from kvferry.testing.under_test import on_host

from .tenancy import (
    OWN,
    READER,
    SIZE,
    A,
    B,
    Join,
    hands,
    joining,
    options,
    region,
    tenanted,
    untouched,
    wire_of,
)

DENIED, UNKNOWN = 1, _core.UNKNOWN
LINKS = ["loopback", "fabric", "cma", "tcp", "hixl"]

pytestmark = pytest.mark.skipif(not on_host(), reason="memory files are the host's")


@pytest.fixture
def target() -> Iterator[kf.Engine]:
    with tenanted() as engine:
        yield engine


@pytest.fixture
def join(target: kf.Engine) -> Iterator[Join]:
    with joining(target) as join:
        yield join


def listed(stranger: Stranger, link: str, after: int) -> messages.Message | None:
    return stranger.ask(messages.ListRegions(link, link, after))


def test_regions_by_their_numbers(target: kf.Engine) -> None:
    """Whatever link is named, whatever number is asked from: one's own, and no trace of others."""
    for _ in range(20):
        target.allocate(secrets.token_hex(4), 4096, tenant="a")
    with hands(target, B) as stranger:
        for link, after in itertools.product(LINKS, (-(1 << 62), -1, 0, 1, 2, 25, 1 << 62)):
            said = listed(stranger, link, after)
            assert isinstance(said, messages.Regions), said
            assert [each.base for each in said.records] in (
                [],
                [region(target, "b").address],
            ), link
            assert (said.last, said.more) == (max(after, 1), False), "it tells how many there are"
            assert link not in ("cma", "hixl") or not said.records


def test_nobody_else_hears_of_a_region_and_nobody_else_holds_it_up(target: kf.Engine) -> None:
    """b listens to announcements, and never answers one."""
    with hands(target, B) as silent, hands(target, A) as told:
        for stranger in (silent, told):
            assert isinstance(listed(stranger, "tcp", 0), messages.Regions)
        made = target.allocate("news", 4096, tenant="a")
        assert b"news" in told.take(100)
        silent.sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            silent.take(1)
        told.close()
        begun = _core.now()
        target.unregister(made)
        assert _core.now() - begun < 900_000_000, "it waited for one who knows nothing of it"
        with pytest.raises(TimeoutError):
            silent.take(1)


@pytest.mark.parametrize("more", [20, pytest.param(5000, marks=pytest.mark.slow)])
def test_forged_places_over_tcp(target: kf.Engine, more: int) -> None:
    """Places that have to do with a's memory, or with that of the engine's own peers."""
    theirs, ours = region(target, "a"), region(target, "b")
    places = [
        (base + offset, length)
        for base in (theirs.address, region(target, "").address)
        for offset in (0, 1, 4096, SIZE - 8)
        for length in (1, 8)
    ]
    draw = np.random.default_rng(4)
    for _ in range(more):
        start, length = (int(each) for each in draw.integers(1, SIZE // 2, 2))
        places.append(
            (int(draw.choice([theirs.address, target.regions["kv"].address])) + start, length)
        )
    mixed = [[place] for place in places] + [[(ours.address, 8), place] for place in places]
    for start in range(0, len(mixed), 500):  # who does not beat is hung up on after a while
        with hands(target, B) as holder, wire_of(target, holder, B) as wire:
            _forge(wire, mixed[start : start + 500])
    assert untouched(target)


def _forge(wire: Stranger, frames: list[list[tuple[int, int]]]) -> None:
    for run, pieces in enumerate(frames, 1):
        for op in (_core.READ, _core.WRITE):
            size = sum(length for _, length in pieces)
            body = b"x" * size if op == _core.WRITE else b""
            wire.send(request(op, pieces, run=2 * run + op) + body)
            _, status, _, verdict, _, address, moved = wire.told()
            assert (status, verdict, moved) == (DENIED, UNKNOWN, 0)
            assert address == pieces[-1][0]
    # What is there answers as what is nowhere.
    wire.send(request(_core.READ, [(8, 8)], run=1))
    assert wire.told()[1:4:2] == (DENIED, UNKNOWN)


def test_a_ticket_is_good_for_the_token_that_it_was_given_to(target: kf.Engine) -> None:
    with hands(target, A) as holder, hands(target, READER, holder.epoch) as reader:
        for owner, token in ((holder, B), (holder, OWN), (holder, READER), (reader, A)):
            for purpose in (messages.DATA, messages.BEAT):
                with Stranger.at(target.addresses[0]) as thief:
                    thief.epoch = owner.epoch
                    ticket = owner.ticket
                    with pytest.raises(AssertionError, match="no connection has this ticket"):
                        thief.prove(token, purpose, ticket)
        with wire_of(target, holder, A):
            pass


def test_nobody_gives_up_another_s_connections(target: kf.Engine, join: Join) -> None:
    with hands(target, A) as holder:
        for token in (B, OWN, READER):
            with Stranger.at(target.addresses[0]) as thief:
                thief.epoch = holder.epoch
                _prove_giving_up(thief, token, holder.ticket)
        assert isinstance(listed(holder, "tcp", 0), messages.Regions), "it was hung up on"


def _prove_giving_up(thief: Stranger, token: bytes, ticket: bytes) -> None:
    handshake = ClientHandshake(token, thief.epoch, auth.new_nonce())
    challenge = thief.ask(handshake.hello)
    assert isinstance(challenge, messages.Challenge)
    proof = handshake.prove(challenge)
    facts = Facts(thief.epoch, "", 0, {})
    said = thief.ask(messages.Proof(proof, "thief", facts, b"", [ticket]))
    assert isinstance(said, messages.Welcome)


def test_another_s_epoch_is_of_no_use(target: kf.Engine, join: Join) -> None:
    """Of a region for one peer alone the tenant and the rights are that one's, too."""
    with kf.Engine(options=options(A)) as one:
        one.connect(target.addresses[0])
        made = target.allocate("one's", 4096, only=one.epoch, tenant="a")
        for token in (B, OWN, READER):
            with hands(target, token, one.epoch) as thief:
                said = listed(thief, "tcp", 0)
                assert isinstance(said, messages.Regions)
                assert "one's" not in {each.name for each in said.records}
                with wire_of(target, thief, token) as wire:
                    for op in (_core.READ, _core.WRITE):
                        wire.send(request(op, [(made.address, 8)], run=op + 1))
                        wire.send(b"x" * 8 if op == _core.WRITE else b"")
                        assert wire.told()[1:4:2] == (DENIED, UNKNOWN)
        assert "one's" in one.connect(target.addresses[0]).regions
        assert made.load(8) == bytes(8)
    for token in (A, B, READER):  # nor is a tenant's peer this engine itself
        with Stranger.at(target.addresses[0]) as thief:
            thief.epoch = target.epoch
            with pytest.raises(AssertionError, match="another engine's"):
                thief.prove(token)


def test_within_a_tenant_a_region_for_one_peer_is_served_to_that_one(target: kf.Engine) -> None:
    with kf.Engine(options=options(A)) as one:
        one.connect(target.addresses[0])
        made = target.allocate("one's", 4096, only=one.epoch, tenant="a")
        with hands(target, A) as other, wire_of(target, other, A) as wire:
            wire.send(request(_core.READ, [(made.address, 8)]))
            assert wire.told()[1:4:2] == (DENIED, UNKNOWN)
