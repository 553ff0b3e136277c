"""What a connection keeps when it is over."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence

import pytest

from kvferry.errors import PeerError
from kvferry.rpc import Connection, Poller


def test_why_it_was_lost_keeps_no_frames_and_so_no_lent_descriptors(
    eventually: Callable[[Callable[[], bool]], bool],
) -> None:
    """A reply that cannot be sent any more; its descriptors are closed with the last reference."""
    lent = os.memfd_create("kvferry-lent")

    class Lent(list[int]):
        def __del__(self) -> None:
            for fd in self:
                os.close(fd)

    def answer(_: Connection, body: bytes, fds: list[int]) -> tuple[bytes, Sequence[int]]:
        client.close()
        return body, Lent([lent])

    ours, theirs = socket.socketpair()
    poller = Poller("test")
    client, server = Connection(ours, answer), Connection(theirs, answer)
    try:
        poller.watch(client)
        poller.watch(server)
        with pytest.raises(Exception, match="closed"):
            client.call(b"", timeout=10)
        assert eventually(lambda: server.lost is not None)
    finally:
        poller.close()
    assert isinstance(server.lost, PeerError)
    each: BaseException | None = server.lost
    while each is not None:
        assert each.__traceback__ is None
        each = each.__cause__ or each.__context__
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(lent)
