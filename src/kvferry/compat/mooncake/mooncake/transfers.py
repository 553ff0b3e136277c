"""What one call moves: at once, or under a number."""

from __future__ import annotations

import time
from collections.abc import Callable

from kvferry._core import now
from kvferry.batch import Batch
from kvferry.engine import Channel, Report, Transfer
from kvferry.errors import Error, Full

from .flights import Flights
from .inner import InnerTransferEngine
from .moves import Rows, deliver, left
from .values import TransferOpcode

__all__ = ["NOTIFY", "carry", "start"]

NOTIFY = "mooncake.notify"  # the name under which a TransferNotify travels

# Seconds between two looks for a slot, when so many transfers are under way that none is free.
SLOT_AGAIN = 0.001

_NOW: dict[TransferOpcode, Callable[[Channel, Batch, float], Report]] = {
    TransferOpcode.Read: Channel.read,
    TransferOpcode.Write: Channel.write,
}
_LATER: dict[TransferOpcode, Callable[[Channel, Batch], Transfer]] = {
    TransferOpcode.Read: Channel.read_async,
    TransferOpcode.Write: Channel.write_async,
}


def carry(
    inner: InnerTransferEngine,
    opcode: TransferOpcode,
    target: str,
    parts: list[Rows],
    notify: bytes | None = None,
) -> None:
    """Move them and return when they are there; then tell the peer, if there is a `notify`.

    Blocks up to the deadline, plus the grace for quiet. Raises what the channel raises.
    """
    move, deadline = _NOW[opcode], _deadline(inner)

    def act(channel: Channel, batch: Batch) -> Report:
        return move(channel, batch, left(deadline + batch.bytes))

    reports = deliver(inner.peers, target, parts, deadline, act)
    if notify is not None:
        channel = inner.peers.channel(target)
        moved = sum(each.bytes for each in reports)
        channel.notify(NOTIFY, notify, timeout=left(deadline + moved))


def start(
    inner: InnerTransferEngine,
    flights: Flights,
    opcode: TransferOpcode,
    target: str,
    parts: list[Rows],
) -> int:
    """Let them be moved and return the number to ask for.

    Blocks while it connects, and while no slot is free. Raises what the channel raises; nothing is
    under way then.
    """
    submit, deadline = _LATER[opcode], _deadline(inner)
    started: list[Transfer] = []

    def act(channel: Channel, batch: Batch) -> None:
        started.append(_patiently(lambda: submit(channel, batch), deadline))

    try:
        deliver(inner.peers, target, parts, deadline, act)
    except BaseException:
        _call_back(started)
        raise
    return flights.add(started, deadline + sum(each.batch.bytes for each in started))


def _patiently(submit: Callable[[], Transfer], deadline: int) -> Transfer:
    while True:
        try:
            return submit()
        except Full:
            if now() >= deadline:
                raise
            time.sleep(SLOT_AGAIN)


def _call_back(started: list[Transfer]) -> None:
    for transfer in started:
        transfer.cancel()
    for transfer in started:
        try:
            transfer.wait()
        except Error:
            continue  # its caller gets the failure of another part


def _deadline(inner: InnerTransferEngine) -> int:
    """Of a transfer without bytes. For each of them there is a nanosecond more."""
    return now() + int(inner.transfer_timeout * 1e9)
