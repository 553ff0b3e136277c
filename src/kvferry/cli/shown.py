"""The live page, as commands that keep something mount it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..address import TcpAddress, parse

if TYPE_CHECKING:
    from ..engine import Engine

__all__ = ["shown"]

ANYWHERE = ("0.0.0.0", "::")  # served at, and nothing that could be opened


@contextmanager
def shown(http: str | None, engine: Engine) -> Iterator[str]:
    """A page about the store of this engine at `http`, as long as the block lasts, and its address;
    "": none was asked for. Prints where it is, with the key."""
    if http is None:
        yield ""
        return
    from ..store.survey import Survey
    from ..watch import Server, Watcher, key_of, url_of

    key = key_of(engine.derive)
    survey = Survey(_reached(engine.addresses), options=engine.options)
    server = Server(http, key, Watcher(survey))
    try:
        page = f"http://{_opened(server.where, survey.address)}"
        print(f"page: {url_of(page, key)}", flush=True)
        yield page
    finally:
        server.close()


def _reached(addresses: tuple[str, ...]) -> str:
    """The one by which others find it, if there is such a one."""
    return next((each for each in addresses if isinstance(parse(each), TcpAddress)), addresses[0])


def _opened(where: TcpAddress, address: str) -> TcpAddress:
    """What a browser elsewhere can open: served anywhere, it is at the host of the engine."""
    if where.host not in ANYWHERE:
        return where
    engine = parse(address)
    host = engine.host if isinstance(engine, TcpAddress) else ANYWHERE[0]
    return TcpAddress(socket.gethostname() if host in ANYWHERE else host, where.port)
