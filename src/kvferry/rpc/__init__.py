"""Messages and file descriptors between processes.

A Connection carries calls in both directions over one stream socket, a Poller serves any number of
them with a few threads, `listen` and `dial` make the sockets, `auth` with `token` lets both ends
prove that they belong together, and `tls`, which is imported by those alone who
ask for it, hides what goes between hosts. Bodies are opaque bytes:
what they mean is known above.
"""

from __future__ import annotations

from . import auth, token
from .connection import LIMIT, LIMIT_BEFORE_AUTHENTICATION, Connection, Serve
from .descriptors import close_all
from .listen import dial, dial_abstract, listen, listen_abstract
from .poller import Accept, Poller
from .wire import MAX_FDS

__all__ = [
    "LIMIT",
    "LIMIT_BEFORE_AUTHENTICATION",
    "MAX_FDS",
    "Accept",
    "Connection",
    "Poller",
    "Serve",
    "auth",
    "close_all",
    "dial",
    "dial_abstract",
    "listen",
    "listen_abstract",
    "token",
]
