"""The order in which locks may be taken, for readers and for the tests that enforce it.

Who holds a lock takes only locks of a later row, never a second one of the same row. Under a leaf
nothing is taken. Under any lock nothing blocks, nothing is sent, received, opened or logged, except
what its row says.

    closing an engine   Engine._closing --> any, one at a time
    connecting          _DialLock.lock --> any, one at a time
    beginning           HixlDriver._starting --> any, once
    rpc                 Guest._lock, Connection._lock --> Poller._lock
    a peer's regions    PeerRegions._attaching --> Physicals.lock
    own regions         OwnRegions._sharing --> Physicals.lock
    a device's memory   Physicals.lock --> Device._lock, VaSpace._lock
    all others          alone

Submitting takes no lock. A transfer enters the channel's gate (`gate.h`), which many are in at
once; who ends the channel closes it, aborts, and waits until the last has left. Native locks stand
in `engines.h`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["BELLS", "ORDER", "Row"]


class Row(NamedTuple):
    """One kind of lock.

    name    class and attribute that hold it
    guards  what, or whom, one has for oneself while one holds it
    leaf    nothing is taken under it
    may     what may be done under it nevertheless -> why; "*" is everything
    """

    name: str
    guards: str
    leaf: bool = True
    may: Mapping[str, str] = {}


_ANY = "its purpose is that this is done by one at a time"

ORDER = (
    Row("Engine._closing", "the end of an engine", False, {"*": _ANY}),
    Row("_DialLock.lock", "connecting to one peer over one path", False, {"*": _ANY}),
    Row("Channels._lock", "the table of channels, and of who is dialling whom"),
    Row("Channel._lock", "why a channel is over: the first reason stands"),
    Row(
        "PeerRegions._attaching",
        "a peer's regions that are known here, mapped or only noted; mapping and unmapping one",
        False,
        {"open": "what a mapping was granted is read from /proc"},
    ),
    Row("Services._lock", "the table of services"),
    Row("OwnRegions._lock", "the table of own regions, overlaps included"),
    Row(
        "OwnRegions._sharing",
        "an allocation: exported, registered elsewhere, or closed",
        False,
        {"open": "a read-only descriptor of a memory file is opened anew"},
    ),
    Row("Front._lock", "the connections that peers made"),
    Row("Mailbox._changed", "notifications that were not taken yet"),
    Row("Bells._lock", "the eventfds of event loops"),
    Row(
        "Heartbeats._lock",
        "who is sent a beat, and who is awaited",
        may={"start a thread": "the first peer of several at once starts it"},
    ),
    Row(
        "HixlDriver._starting",
        "initialising the vendor's engine, once",
        False,
        {"*": "whoever needs it waits for it"},
    ),
    Row("HixlRequests.changed", "what is under way over the vendor's engine, and its connections"),
    Row("SlotPool._lock", "streams that are idle, and who waits for one"),
    Row("CoprocessorSubmitter._lock", "making a control stream anew"),
    Row("Wires._lock", "wires that exist, and a thread for each"),
    Row("TcpDriver._lock", "the numbers of peers whose wires are served"),
    Row("Tls._lock", "relays that exist"),
    Row(
        "Guest._lock",
        "a step of a handshake",
        False,
        dict.fromkeys(("send", "recv"), "the socket does not block"),
    ),
    Row("Connection._lock", "who calls, who leads, whether it is lost", leaf=False),
    Row(
        "Outbox._lock",
        "frames that wait to be sent: they leave whole",
        may=dict.fromkeys(("send", "sendmsg"), "the socket does not block, and order is the point"),
    ),
    Row("Poller._lock", "what epoll watches, jobs, deadlines"),
    Row(
        "Workers._lock",
        "how many threads there are, and how many wait",
        may={
            "start a thread": "one too many would be started else",
            "log": "that a thread could not be started",
        },
    ),
    Row(
        "Physicals.lock",
        "a device's memory: exported, imported, retained, let go; the library may ask its owner",
        False,
        {"log": "that there is no list of importers, once"},
    ),
    Row("Device._lock", "who keeps a device"),
    Row("VaSpace._lock", "which blocks of a reservation are taken"),
)

# Of the same type, but nobody holds them: one thread takes them and another gives them back.
BELLS = {
    "Waiter._bell": "taken by who waits for a reply, given back by who has it",
    "Inbound._paying": "taken by who owes a peer news, given back by the worker that told them",
}
