"""A peer that is no engine: it says what it is told, over a socket of its own."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress

from ...address import parse as parse_address
from ...engine import messages
from ...engine.handshake import ClientHandshake
from ...engine.messages import Message
from ...link import Facts
from ...rpc import auth, dial, dial_abstract
from ...rpc.wire import HEADER_SIZE, Kind, encode
from .frames import ANSWER

__all__ = ["Stranger"]

PATIENCE = 10.0  # seconds for one answer
CHUNK = 1 << 20


class Stranger:
    """One connection to an engine. Not thread-safe; every call blocks for PATIENCE at most.

    epoch  what it says that it is
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(PATIENCE)
        self.epoch = secrets.randbits(60) + 1
        self.sock = sock
        self._call = 0

    @classmethod
    def at(cls, where: str | bytes) -> Stranger:
        """At an address, or at the abstract socket of that name."""
        if isinstance(where, bytes):
            return cls(dial_abstract(where, PATIENCE))
        return cls(dial(parse_address(where), PATIENCE))

    def send(self, data: bytes) -> bool:
        """False when nobody is there any more."""
        try:
            self.sock.sendall(data)
        except ConnectionError:
            return False
        return True

    def say(self, message: Message | bytes, kind: int = Kind.REQUEST) -> None:
        """A whole frame."""
        body = message if isinstance(message, bytes) else messages.encode(message)
        self._call += 1
        self.send(encode(Kind(kind), self._call, body))

    def hear(self) -> Message | None:
        """The next answer; None when the engine hung up instead."""
        head = self.take(HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            return None
        assert head[4] == Kind.REPLY
        return messages.decode(self.take(int.from_bytes(head[:4], "little")))

    def ask(self, message: Message | bytes) -> Message | None:
        self.say(message)
        return self.hear()

    def hello(self, purpose: str = messages.CONTROL) -> Message | None:
        return self.ask(ClientHandshake(b"", self.epoch, auth.new_nonce(), purpose).hello)

    def prove(
        self, token: bytes, purpose: str = messages.CONTROL, ticket: bytes = b""
    ) -> messages.Welcome:
        """The whole handshake of one who holds `token`."""
        handshake = ClientHandshake(token, self.epoch, auth.new_nonce(), purpose)
        challenge = self.ask(handshake.hello)
        assert isinstance(challenge, messages.Challenge), challenge
        facts = Facts(self.epoch, "", 0, {})
        welcome = self.ask(messages.Proof(handshake.prove(challenge), "stranger", facts, ticket))
        assert isinstance(welcome, messages.Welcome), welcome
        handshake.check(welcome.proof)
        return welcome

    def told(self) -> tuple[int, ...]:
        """One answer on a wire."""
        return ANSWER.unpack(self.take(ANSWER.size))

    def take(self, length: int) -> bytes:
        """So many bytes, or fewer when the other end closes."""
        data = b""
        with suppress(ConnectionResetError):
            while len(data) < length and (more := self.sock.recv(min(length - len(data), CHUNK))):
                data += more
        return data

    def rest(self) -> bytes:
        """All that comes until the other end closes."""
        return self.take(1 << 30)

    def end(self) -> None:
        """It will say nothing more, but listens."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Stranger:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
