"""Mutual proof that both ends hold the same token, without showing it. Pure.

    client                                   server
      | -- epoch, nonce, purpose, version -->  |
      | <-- epoch, nonce ------------------    |
      | -- proof(token, CLIENT, transcript) -> |  verified before anything is served
      | <- proof(token, SERVER, transcript) -- |  verified before anything is believed

Both sides' fresh nonces are in the transcript, so an old proof proves nothing; the role is in the
proof, so a reflected one does not either.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import astuple, dataclass
from enum import Enum

__all__ = ["NONCE_SIZE", "Role", "Transcript", "new_nonce", "proof", "verify"]

NONCE_SIZE = 32

_DOMAIN = b"kvferry mutual authentication"


class Role(Enum):
    """Who proves."""

    CLIENT = b"client"
    SERVER = b"server"


@dataclass(frozen=True, slots=True)
class Transcript:
    """What both ends agreed on before they prove anything."""

    version: int
    purpose: str
    client_epoch: int
    server_epoch: int
    client_nonce: bytes
    server_nonce: bytes

    def __bytes__(self) -> bytes:
        # Every field bears its length, so no two transcripts share their bytes.
        return b"".join(map(_counted, astuple(self)))


def new_nonce() -> bytes:
    """32 bytes nobody can guess."""
    return secrets.token_bytes(NONCE_SIZE)


def proof(token: bytes, role: Role, transcript: Transcript) -> bytes:
    """32 bytes that only a holder of `token` can make, good for this role and transcript alone."""
    message = _counted(_DOMAIN) + _counted(role.value) + bytes(transcript)
    return hmac.digest(token, message, hashlib.sha256)


def verify(token: bytes, role: Role, transcript: Transcript, claimed: bytes) -> bool:
    """Whether `claimed` is the proof of a peer in `role`, in a time that does not depend on it."""
    return hmac.compare_digest(proof(token, role, transcript), claimed)


def _counted(field: int | str | bytes) -> bytes:
    data = field if isinstance(field, bytes) else str(field).encode()
    return len(data).to_bytes(8, "little") + data
