"""Proofs hold for one token, role and transcript, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry.rpc.auth import NONCE_SIZE, Role, Transcript, new_nonce, proof, verify

HELLO = Transcript(1, "control", 7, 8, b"c" * 32, b"s" * 32)
TOKEN = b"token"

transcripts = st.builds(
    Transcript,
    st.integers(0, 300),
    st.text(max_size=4),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=4),
    st.binary(max_size=4),
)


@pytest.mark.parametrize("role", Role)
def test_a_proof_is_accepted(role: Role) -> None:
    assert verify(TOKEN, role, HELLO, proof(TOKEN, role, HELLO))
    assert len(proof(TOKEN, role, HELLO)) == 32


def test_a_reflected_proof_is_useless() -> None:
    assert not verify(TOKEN, Role.SERVER, HELLO, proof(TOKEN, Role.CLIENT, HELLO))


def test_another_token_proves_nothing() -> None:
    assert not verify(TOKEN, Role.CLIENT, HELLO, proof(b"other", Role.CLIENT, HELLO))


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"purpose": "data"},
        {"client_epoch": 8},
        {"server_epoch": 7},
        {"client_nonce": b"s" * 32},
        {"server_nonce": b"c" * 32},
    ],
)
def test_every_field_is_bound(change: dict[str, object]) -> None:
    changed = replace(HELLO, **change)  # type: ignore[arg-type]
    assert not verify(TOKEN, Role.CLIENT, changed, proof(TOKEN, Role.CLIENT, HELLO))


@pytest.mark.parametrize("claimed", [b"", b"short", bytes(32), bytes(33)])
def test_other_bytes_are_refused(claimed: bytes) -> None:
    assert not verify(TOKEN, Role.CLIENT, HELLO, claimed)


@given(transcripts, transcripts)
def test_different_transcripts_have_different_bytes(a: Transcript, b: Transcript) -> None:
    assert (bytes(a) == bytes(b)) == (a == b)


def test_nonces_are_fresh() -> None:
    nonces = {new_nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert {len(nonce) for nonce in nonces} == {NONCE_SIZE}
