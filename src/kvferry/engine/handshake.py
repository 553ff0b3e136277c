"""How two engines prove to each other that they hold the same token. Pure.

A client has one token. A server may know several, and answers with the one that was proved to it.

client                        server
Hello      ->                           version, epoch, nonce
           <-  Challenge                version, epoch, nonce
Proof      ->                           checked before anything is served
           <-  Welcome                  checked before anything in it is believed
"""

from __future__ import annotations

from ..errors import PeerError, RightsError
from ..rpc import auth
from .messages import BEAT, CONTROL, DATA, VERSION, Challenge, Hello
from .tenants import Badge, Keyring

__all__ = ["ClientHandshake", "ServerHandshake"]

MEND = "give both sides the same KVFERRY_TOKEN, or the same token file"


class ClientHandshake:
    """The side that connects, for one connection."""

    def __init__(self, token: bytes, epoch: int, nonce: bytes, purpose: str = CONTROL) -> None:
        self._token = token
        self.hello = Hello(VERSION, purpose, epoch, nonce)
        self._transcript: auth.Transcript | None = None

    def prove(self, challenge: Challenge) -> bytes:
        """Our proof. Raises PeerError when the peer speaks another version."""
        self._transcript = _transcript(self.hello, challenge)
        return auth.proof(self._token, auth.Role.CLIENT, self._transcript)

    def check(self, proof: bytes) -> None:
        """Raises RightsError when the peer does not hold our token."""
        assert self._transcript is not None, "check comes after prove"
        if not auth.verify(self._token, auth.Role.SERVER, self._transcript, proof):
            raise RightsError(f"the peer holds another token: {MEND}", cause="token")


class ServerHandshake:
    """The side that is connected to, for one connection."""

    def __init__(self, keyring: Keyring, epoch: int, nonce: bytes) -> None:
        self._keyring = keyring
        self._challenge = Challenge(VERSION, epoch, nonce)
        self._transcript: auth.Transcript | None = None

    def challenge(self, hello: Hello) -> Challenge:
        """Raises PeerError when the client speaks another version."""
        self._transcript = _transcript(hello, self._challenge)
        return self._challenge

    def check(self, proof: bytes) -> tuple[Badge, bytes]:
        """What the client's token stands for, and our proof in return. Raises RightsError when it
        does not hold one that we know."""
        assert self._transcript is not None, "check comes after challenge"
        found = self._keyring.holder(self._transcript, proof)
        if found is None:
            raise RightsError(f"wrong token: {MEND}", cause="token")
        badge, token = found
        return badge, auth.proof(token, auth.Role.SERVER, self._transcript)


def _transcript(hello: Hello, challenge: Challenge) -> auth.Transcript:
    if hello.version != challenge.version:
        raise PeerError(
            f"incompatible versions: the caller speaks {hello.version}, the callee "
            f"{challenge.version}",
            cause="version",
        )
    if hello.purpose not in (CONTROL, DATA, BEAT):
        raise PeerError(f"a connection for {hello.purpose!r}", cause="protocol")
    for nonce in (hello.nonce, challenge.nonce):
        if len(nonce) != auth.NONCE_SIZE:
            raise PeerError(f"a nonce of {len(nonce)} bytes", cause="protocol")
    return auth.Transcript(
        hello.version, hello.purpose, hello.epoch, challenge.epoch, hello.nonce, challenge.nonce
    )
