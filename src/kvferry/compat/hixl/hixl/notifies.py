"""Short messages between engines, as notifications of kvferry."""

from __future__ import annotations

import json
import logging

import kvferry as kf

from .codes import PARAM_INVALID
from .failures import Refused
from .values import NotifyDesc

__all__ = ["receive", "send"]

logger = logging.getLogger("hixl")

CHARACTERS_MOST = 1024  # of a name, and of a message
NAME = "hixl.notify"  # of the notification that carries both


def send(channel: kf.Channel, notify: NotifyDesc, timeout: float) -> None:
    """Returns when it is in the peer's queue. Raises Refused, and as Channel.notify."""
    for what, text in (("name", notify.name), ("notify_msg", notify.notify_msg)):
        if len(text) > CHARACTERS_MOST:
            raise Refused(
                PARAM_INVALID, f"{what} has {len(text)} characters, {CHARACTERS_MOST} at most"
            )
    text = json.dumps([notify.name, notify.notify_msg])
    channel.notify(NAME, text.encode(), timeout=timeout)


def receive(engine: kf.Engine) -> list[NotifyDesc]:
    """All that have come, oldest first; the queue is empty then."""
    found = []
    for each in engine.notifications(0):
        try:
            found.append(_decode(each))
        except (ValueError, TypeError, RecursionError) as error:
            logger.warning("%s sent no notify: %s", each.peer, error)
    return found


def _decode(notification: kf.Notification) -> NotifyDesc:
    if notification.name != NAME:  # of a peer that speaks kvferry
        return NotifyDesc(notification.name, notification.message.decode())
    name, message = json.loads(notification.message)
    return NotifyDesc(name, message)
