"""What a node answers to each request of a user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import PeerError, UsageError
from .. import messages as m
from ..answers import Answer, Answers, Digests, Pin
from ..clock import moments, now
from ..records import Commits
from ..table import Words
from .members import Member
from .node import Node

__all__ = ["answer"]

ABSENT = int(Answer.ABSENT)  # as a plain number, which arrays take faster


def answer(node: Node, member: Member, request: m.Request) -> m.Reply:
    """Carry a request of a user out. Raises UsageError for columns that do not fit each other, and
    for a request that does not come from a user."""
    verb = _VERBS.get(type(request))
    if verb is None:
        raise UsageError(f"{type(request).__name__} is not for users", cause="protocol")
    return verb(node, member, request)


def joined(node: Node, member: Member) -> m.Joined:
    """What a new user has to know."""
    return m.Joined(
        user=member.number,
        epoch=node.engine.epoch,
        secret=node.secret,
        pool=node.pool.length,
        stock=node.stock,
        lines=node.lines_bytes,
        entries=node.index.capacity,
        longest_lease=node.limits.longest_lease,
        peers=node.peers,
    )


def _leave(node: Node, member: Member, request: m.Leave) -> m.Told:
    """An earlier life of the same process may be taken leave of, too."""
    leaver = node.members.numbered(request.user)
    same = leaver is not None and (leaver is member or (leaver.pid and leaver.pid == member.pid))
    if leaver is None or not same:
        return _one(Answer.UNKNOWN)
    node.leave(leaver)
    return _one(Answer.REMOVED)


def _reserve(node: Node, member: Member, request: m.Reserve) -> m.Extents:
    (sizes,) = m.numbers_in(request.sizes)
    sizes = np.minimum(sizes, node.pool.length + 1)  # which is too large, as all above it are
    with node.clerk:
        _check_here(node, member)
        node.hear_touches()
        given = node.catalog.reserve(member.number, sizes, now())
    answers, attempts, offsets, rooms = given
    return m.Extents(
        m.column_of(answers), m.column_of(attempts), m.column_of(offsets), m.column_of(rooms)
    )


def _commit(node: Node, member: Member, request: m.Commit) -> m.Told:
    attempts, lengths = m.words_in(request.attempts, request.lengths)
    digests = _digests(request.digests, len(attempts))
    parents = None if request.parents is None else _digests(request.parents, len(attempts))
    expires = None if request.ttls is None else _moments(request.ttls, len(attempts))
    commits = Commits(attempts, digests, lengths, None, parents, expires)
    return _told(node.commit(member.number, commits))


def _abort(node: Node, member: Member, request: m.Abort) -> m.Told:
    (attempts,) = m.words_in(request.attempts)
    with node.clerk:
        return _told(node.catalog.abort(member.number, attempts))


def _remove(node: Node, member: Member, request: m.Remove) -> m.Told:
    with node.clerk:
        return _told(node.catalog.remove(m.digests_in(request.digests), now()))


def _locate(node: Node, member: Member, request: m.Locate) -> m.Located:
    digests = m.digests_in(request.digests)
    (done,) = m.numbers_in(request.done)
    with node.clerk:
        _check_here(node, member)
        for ticket in done.tolist():
            node.catalog.release(member.number, ticket)
        start = now()
        found = node.catalog.lease(member.number, digests, start, start + request.lease)
        absent = found.answers == ABSENT
        if ABSENT in found.answers.tobytes():
            node.tally.missed(node.catalog.why(digests[absent]))
        node.tally.located(found.entries["length"][~absent], int(absent.sum()))
    return m.Located(
        ticket=found.ticket,
        lease=found.until - start,
        answers=m.column_of(found.answers),
        offsets=m.column_of(found.entries["offset"]),
        lengths=m.column_of(found.entries["length"]),
    )


def _renew(node: Node, member: Member, request: m.Renew) -> m.Told:
    with node.clerk:
        start = now()
        held = node.catalog.renew(member.number, request.ticket, start, start + request.lease)
    return _one(Answer.FOUND if held else Answer.LATE)


def _release(node: Node, member: Member, request: m.Release) -> m.Told:
    (tickets,) = m.numbers_in(request.tickets)
    with node.clerk:
        held = [node.catalog.release(member.number, ticket) for ticket in tickets.tolist()]
    return _told(np.where(held, Answer.FOUND, Answer.LATE).astype(np.uint8))


def _keep(node: Node, member: Member, request: m.Keep) -> m.Told:
    if request.pin not in tuple(Pin):
        raise UsageError(f"there is no pin {request.pin}", cause="protocol")
    with node.clerk:
        return _told(node.catalog.pin(m.digests_in(request.digests), Pin(request.pin)))


def _group(node: Node, member: Member, request: m.Group) -> m.Told:
    with node.clerk:
        return _told(node.catalog.group(m.digests_in(request.digests)))


def _why(node: Node, member: Member, request: m.Why) -> m.Told:
    with node.clerk:
        return _told(node.catalog.why(m.digests_in(request.digests)))


def _look(node: Node, member: Member, request: m.Look) -> m.Looked:
    return m.Looked(node.figures())


def _drain(node: Node, member: Member, request: m.Drain) -> m.Told:
    return _one(Answer.LEASED if node.drain() else Answer.REMOVED)


_VERBS: dict[type, Callable[[Node, Member, Any], m.Reply]] = {
    m.Leave: _leave,
    m.Reserve: _reserve,
    m.Commit: _commit,
    m.Abort: _abort,
    m.Remove: _remove,
    m.Locate: _locate,
    m.Renew: _renew,
    m.Release: _release,
    m.Keep: _keep,
    m.Group: _group,
    m.Why: _why,
    m.Look: _look,
    m.Drain: _drain,
}


def _check_here(node: Node, member: Member) -> None:
    """Nothing is given to a user that left, or fell silent, while it asked."""
    if member.silent or node.members.numbered(member.number) is not member:
        raise PeerError("the user is gone", cause="user_gone")


def _digests(column: bytes, count: int) -> Digests:
    digests = m.digests_in(column)
    if len(digests) != count:
        raise UsageError("columns of a request do not fit each other", cause="protocol")
    return digests


def _moments(ttls: bytes, count: int) -> Words | None:
    (spans,) = m.numbers_in(ttls)
    if len(spans) != count:
        raise UsageError("columns of a request do not fit each other", cause="protocol")
    return moments(spans)


def _told(answers: Answers) -> m.Told:
    return m.Told(m.column_of(answers))


def _one(said: Answer) -> m.Told:
    return m.Told(bytes([said]))
