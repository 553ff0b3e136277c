"""The handshake and the ranking, without sockets."""

from __future__ import annotations

import pytest

import kvferry as kf
from kvferry.engine.handshake import ClientHandshake, ServerHandshake
from kvferry.engine.messages import VERSION, Challenge, Hello
from kvferry.engine.negotiate import rank
from kvferry.engine.tenants import Badge, Keyring
from kvferry.link import DRIVERS, Facts
from kvferry.path import PRESETS, parse

N1, N2 = b"1" * 32, b"2" * 32


def test_both_sides_are_convinced_by_the_same_token() -> None:
    client = ClientHandshake(b"token", 1, N1)
    server = ServerHandshake(Keyring(b"token"), 2, N2)
    challenge = server.challenge(client.hello)
    badge, proof = server.check(client.prove(challenge))
    client.check(proof)
    assert badge == Badge()


def test_a_wrong_token_convinces_neither() -> None:
    client = ClientHandshake(b"token", 1, N1)
    server = ServerHandshake(Keyring(b"other"), 2, N2)
    proof = client.prove(server.challenge(client.hello))
    with pytest.raises(kf.RightsError):
        server.check(proof)
    with pytest.raises(kf.RightsError):
        client.check(proof)  # a reflected proof is none


def test_an_old_proof_is_none_for_a_new_nonce() -> None:
    client = ClientHandshake(b"token", 1, N1)
    old = client.prove(ServerHandshake(Keyring(b"token"), 2, N2).challenge(client.hello))
    fresh = ServerHandshake(Keyring(b"token"), 2, b"3" * 32)
    fresh.challenge(client.hello)
    with pytest.raises(kf.RightsError):
        fresh.check(old)


@pytest.mark.parametrize("field", ["purpose", "epoch", "nonce"])
def test_a_proof_is_bound_to_what_was_said(field: str) -> None:
    client = ClientHandshake(b"token", 1, N1)
    said = {"purpose": "data", "epoch": 9, "nonce": N2}[field]
    hello = client.hello
    forged = Hello(
        **{name: getattr(hello, name) for name in hello.__struct_fields__} | {field: said}
    )
    server = ServerHandshake(Keyring(b"token"), 2, N2)
    with pytest.raises(kf.RightsError) as caught:
        server.check(client.prove(server.challenge(forged)))
    assert caught.value.cause == "token"


def test_a_purpose_that_nobody_knows() -> None:
    with pytest.raises(kf.PeerError, match="a connection for 'mail'"):
        ServerHandshake(Keyring(b"token"), 2, N2).challenge(Hello(VERSION, "mail", 1, N1))


def test_versions_and_nonces_are_checked_by_both() -> None:
    client = ClientHandshake(b"token", 1, N1)
    with pytest.raises(kf.PeerError) as caught:
        client.prove(Challenge(99, 2, N2))
    assert caught.value.cause == "version"
    with pytest.raises(kf.PeerError):
        client.prove(Challenge(VERSION, 2, b"short"))
    server = ServerHandshake(Keyring(b"token"), 2, N2)
    with pytest.raises(kf.PeerError):
        server.challenge(Hello(99, "control", 1, N1))
    with pytest.raises(kf.PeerError):
        server.challenge(Hello(VERSION, "control", 1, b""))


OFFERED: dict[str, dict[str, int | str]] = {
    "loopback": {},
    "fabric": {},
    "cma": {"uid": 1, "gid": 1, "dumpable": 1, "yama": 0, "ptracer": 0, "probe": 4096},
    "tcp": {"address": "127.0.0.1:1"},
}


def facts(**changes: object) -> Facts:
    fields = {"epoch": 1, "boot": "b", "network": 7, "links": OFFERED} | changes
    return Facts(**fields)


@pytest.mark.parametrize(
    ("theirs", "reasons"),
    [
        (facts(epoch=2), {"loopback": "another engine"}),
        (
            facts(epoch=2, boot="c"),
            {"loopback": "another engine", "fabric": "another host", "cma": "another host"},
        ),
        (
            facts(epoch=2, network=8),
            {"loopback": "another engine", "fabric": "namespace", "cma": "namespace"},
        ),
        (
            facts(epoch=2, links={}),
            {
                "loopback": "another engine",
                "fabric": "not offer",
                "cma": "not offer",
                "tcp": "not offer",
            },
        ),
        (facts(), {}),
    ],
)
def test_every_path_is_a_candidate_or_has_a_reason(theirs: Facts, reasons: dict[str, str]) -> None:
    drivers = {driver.kind: driver for driver in DRIVERS}
    candidates, rejected = rank(facts(), theirs, PRESETS["auto"], drivers)
    assert {path.link.value for path in rejected} == set(reasons)
    for path, reason in rejected.items():
        assert reasons[path.link.value] in reason
    assert set(candidates) | set(rejected) == set(PRESETS["auto"])


def test_a_link_that_the_engine_has_not_got() -> None:
    candidates, rejected = rank(facts(), facts(), parse("fabric/host"), {})
    assert not candidates
    assert list(rejected.values()) == ["this engine has no such link"]
