"""What a node answers to each request of a user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import _core, log
from ...errors import Error, PeerError, UsageError
from .. import messages as m
from ..answers import Answer, Answers, Cause, Digests, Pin
from ..clock import moments, now
from ..records import Commits
from ..table import Words
from .figures import looked
from .members import Member
from .node import Node
from .rights import check_rights

__all__ = ["answer"]

logger = log.get("kvferry.store")

SETTLERS = 16  # threads that wait for users at once; so that others are served
SETTLING = 100_000_000  # ns that each waits at a time

# As plain numbers, which arrays take faster.
FOUND, ABSENT, BUSY = int(Answer.FOUND), int(Answer.ABSENT), int(Answer.BUSY)


def answer(node: Node, member: Member, request: m.Request) -> m.Reply:
    """Carry a request of a user out. Raises UsageError for columns that do not fit each other, and
    for a request that does not come from a user; RightsError for one that is not for this user."""
    verb = _VERBS.get(type(request))
    if verb is None:
        raise UsageError(f"{type(request).__name__} is not for users", cause="protocol")
    check_rights(member, request)
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
        rights=member.rights.value,
        directory=node.directory.addresses,
    )


def _leave(node: Node, member: Member, request: m.Leave) -> m.Told:
    """An earlier life of the same process may be taken leave of, too."""
    leaver = node.members.numbered(request.user)
    if leaver is None or (leaver.epoch, leaver.pid) != (member.epoch, member.pid):
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
    attrs = None if request.attrs is None else m.words_in(request.attempts, request.attrs)[1]
    commits = Commits(attempts, digests, lengths, attrs, parents, expires)
    answers = node.commit(member.number, commits)
    with node.clerk:
        node.tally.written(member, int(lengths[answers == Answer.STORED].sum()))
    return _told(answers)


def _abort(node: Node, member: Member, request: m.Abort) -> m.Told:
    (attempts,) = m.words_in(request.attempts)
    with node.clerk:
        return _told(node.catalog.abort(member.number, attempts))


def _remove(node: Node, member: Member, request: m.Remove) -> m.Told:
    return _told(node.take_out(m.digests_in(request.digests), request.force))


def _copy(node: Node, member: Member, request: m.Copy) -> m.Told:
    digests = m.digests_in(request.digests)
    if len(digests) > m.COPIES:
        raise UsageError(f"{m.COPIES} keys at once are copied", cause="protocol")
    if request.to in node.engine.addresses:
        with node.clerk:
            here = node.why(digests) == Cause.PRESENT
        return _told(np.where(here, Answer.PRESENT, ABSENT).astype(np.uint8))
    copier = node.copier
    if copier is None:  # the node ends
        return _told(np.full(len(digests), Answer.DRAINING, np.uint8))
    try:
        return _told(copier.copy(request.to, digests))
    except Error as error:
        logger.info("%s takes no copies: %s", request.to, error)
        return _told(np.full(len(digests), Answer.NODE_GONE, np.uint8))


def _locate(node: Node, member: Member, request: m.Locate) -> m.Located:
    """What is small is copied here and now, while nobody may leave, and needs no lease."""
    digests = m.digests_in(request.digests)
    tickets = m.numbers_in(request.done)[0].tolist() if request.done else ()
    catalog = node.catalog
    if node.tier is not None:
        _release(node, member, m.Release(request.done))  # which would keep memory full
        node.fetch(digests)
    with node.clerk:
        _check_here(node, member)
        for ticket in tickets:
            catalog.release(member.number, ticket)
        start = now()
        lease = min(request.lease, catalog.limits.longest_lease)
        sites = _core.locate(node.index, digests, catalog.moments(), start, node.pool.address)
        answers, offsets, lengths, cargo, used, left, generations, found = sites
        catalog.used(used)
        ticket = catalog.keep(member.number, left, generations, start + lease)
        _count(node, member, digests, m.answers_in(answers), found)
    return m.Located(ticket, lease, answers, offsets, lengths, cargo)


def _lease(node: Node, member: Member, request: m.Lease) -> m.Leased:
    """What came from the disk may have left again before it is leased: as long as more of it stays,
    the rest is brought in anew."""
    digests = m.digests_in(request.digests)
    ticket, held = 0, -1
    while True:
        wanted = _bring_in(node, digests)
        with node.clerk:
            _check_here(node, member)
            start = now()
            found = node.catalog.lease(member.number, digests, start, start + request.lease)
            node.catalog.release(member.number, ticket)
        before, held, ticket = held, int((found.answers == FOUND).sum()), found.ticket
        if held >= wanted or held <= before:
            break
    with node.clerk:
        lengths = found.entries["length"][found.answers == FOUND]
        _count(node, member, digests, found.answers, int(lengths.sum()))
    return m.Leased(found.ticket, found.until - start, m.column_of(found.answers))


def _count(node: Node, member: Member, digests: Digests, answers: Answers, found: int) -> None:
    """`found` bytes of objects that were."""
    absent = answers.tobytes().count(ABSENT)
    if absent:
        node.tally.missed(node.why(digests[answers == ABSENT]))
    node.tally.located(member, len(answers) - absent, found, absent)


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


def _fetch(node: Node, member: Member, request: m.Fetch) -> m.Told:
    digests = m.digests_in(request.digests)
    answers = node.fetch(digests)
    if answers is None:  # there is no disk to fetch from
        answers = np.full(len(digests), ABSENT, np.uint8)
    absent = digests[answers == ABSENT]
    if len(absent):
        with node.clerk:
            node.tally.missed(node.why(absent))
    return _told(answers)


def _keep(node: Node, member: Member, request: m.Keep) -> m.Told:
    if request.pin not in tuple(Pin):
        raise UsageError(f"there is no pin {request.pin}", cause="protocol")
    digests = m.digests_in(request.digests)
    _bring_in(node, digests)
    with node.clerk:
        return _told(node.catalog.pin(digests, Pin(request.pin)))


def _group(node: Node, member: Member, request: m.Group) -> m.Told:
    digests = m.digests_in(request.digests)
    _bring_in(node, digests)
    with node.clerk:
        return _told(node.catalog.group(digests))


def _why(node: Node, member: Member, request: m.Why) -> m.Told:
    """Of another tenant's keys nothing is looked up, whether there is such a tenant or not."""
    digests = m.digests_in(request.digests)
    if request.tenant not in (None, node.tenant):
        return _told(np.full(len(digests), Cause.OTHER_TENANT, np.uint8))
    with node.clerk:
        return _told(node.why(digests))


def _look(node: Node, member: Member, request: m.Look) -> m.Looked:
    return looked(node)


def _settle(node: Node, member: Member, request: m.Settle) -> m.Told:
    """Who asked for longer asks again."""
    herald = node.herald
    if herald is None:
        return _one(Answer.FOUND)
    span = 0 if herald.waiting >= SETTLERS else min(request.span, SETTLING)
    return _one(Answer.FOUND if herald.settle(now() + span, request.alone) else Answer.LATE)


def _drain(node: Node, member: Member, request: m.Drain) -> m.Told:
    return _one(Answer.LEASED if node.drain() else Answer.REMOVED)


_VERBS: dict[type, Callable[[Node, Member, Any], m.Reply]] = {
    m.Leave: _leave,
    m.Reserve: _reserve,
    m.Commit: _commit,
    m.Abort: _abort,
    m.Remove: _remove,
    m.Copy: _copy,
    m.Locate: _locate,
    m.Lease: _lease,
    m.Renew: _renew,
    m.Release: _release,
    m.Fetch: _fetch,
    m.Keep: _keep,
    m.Group: _group,
    m.Why: _why,
    m.Look: _look,
    m.Settle: _settle,
    m.Drain: _drain,
}


def _bring_in(node: Node, digests: Digests) -> int:
    """From the disk, as much at a time as one may, as long as more of it comes: how many are in
    memory then, as far as they stay there."""
    before, here = len(digests) + 1, 0
    while 0 < len(digests) < before:
        before, answers = len(digests), node.fetch(digests)
        if answers is None:  # there is no disk
            break
        here += int((answers == FOUND).sum())
        digests = digests[answers == BUSY]
    return here


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
