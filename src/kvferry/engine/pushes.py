"""What a peer tells a channel unasked: regions come and go."""

from __future__ import annotations

import weakref

from ..errors import Error, PeerError
from ..link import Published
from ..rpc import Connection, Serve, close_all
from . import messages
from .channel import Channel

__all__ = ["serve_channel"]


def serve_channel(channel: Channel) -> Serve:
    """Answers the peer's requests on a channel's control connection. Does not keep the channel."""
    target = weakref.ref(channel)

    def serve(connection: Connection, body: bytes, fds: list[int]) -> tuple[bytes, list[int]]:
        try:
            answer = _answer(target(), messages.decode(body), fds)
        except Error as error:
            answer = messages.Refusal(error.cause, str(error.args[0]))
        finally:
            close_all(fds)
        return messages.encode(answer), []

    return serve


def _answer(channel: Channel | None, message: messages.Message, fds: list[int]) -> messages.Message:
    if channel is None:
        return messages.Empty()
    if isinstance(message, messages.Announce):
        taken = fds[:]
        fds.clear()
        channel.known_regions.attach(Published(message.record, taken))
    elif isinstance(message, messages.Revoke):
        channel.known_regions.revoke(message.serial)
    else:
        raise PeerError(f"unexpected {type(message).__name__}", cause="protocol")
    return messages.Empty()
