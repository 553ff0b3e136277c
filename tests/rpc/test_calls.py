"""The lead and the outcomes, without sockets or threads."""

from __future__ import annotations

import os

import pytest

from kvferry.errors import PeerError, Timeout
from kvferry.rpc.backlog import MAX_BYTES, MAX_REQUESTS, Backlog
from kvferry.rpc.calls import Calls
from kvferry.rpc.wire import Frame, Kind


def reply(call: int, body: bytes = b"") -> tuple[Frame, list[int]]:
    return Frame(Kind.REPLY, call, 0, body), []


def test_the_first_caller_leads_and_the_oldest_inherits() -> None:
    calls = Calls()
    first, second, third = (calls.enter() for _ in range(3))
    assert [first.leads, second.leads, third.leads] == [True, False, False]
    calls.deliver(reply(second.call, b"2"))
    calls.leave(first)
    calls.pass_lead()
    assert [second.leads, third.leads, calls.led] == [False, True, True]
    calls.leave(third)
    calls.pass_lead()
    assert not calls.led
    assert calls.enter().leads
    assert second.result("peer") == (b"2", [])


def test_nobody_leads_beside_a_worker() -> None:
    calls = Calls()
    calls.led = True
    caller = calls.enter()
    assert not caller.leads
    calls.pass_lead()
    assert caller.leads


def test_outcomes() -> None:
    calls = Calls()
    late, failed, lost = (calls.enter() for _ in range(3))
    calls.leave(late)
    reading, writing = os.pipe()
    calls.deliver((Frame(Kind.REPLY, late.call, 2, b"late"), [reading, writing]))
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(reading)
    with pytest.raises(Timeout):
        late.result("peer")
    calls.deliver((Frame(Kind.FAILURE, failed.call, 0, b"because"), []))
    with pytest.raises(PeerError, match="because"):
        failed.result("peer")
    calls.fail(lambda: PeerError("gone", cause="connection_lost"))
    with pytest.raises(PeerError, match="gone"):
        lost.result("peer")
    assert len(calls) == 0


def test_a_discarded_reply_closes_its_descriptors() -> None:
    calls = Calls()
    caller = calls.enter()
    reading, writing = os.pipe()
    calls.deliver((Frame(Kind.REPLY, caller.call, 2, b""), [reading, writing]))
    caller.discard()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(writing)


def test_a_backlog_has_bounds() -> None:
    backlog = Backlog()
    request = Frame(Kind.REQUEST, 1, 0, b"x")
    backlog.add([(request, [])])
    assert not backlog.overrun(authenticated=False)
    backlog.add([(request, [])])
    assert backlog.overrun(authenticated=False)
    assert not backlog.overrun(authenticated=True)
    backlog.add([(request, [])] * (MAX_REQUESTS - 2))
    assert not backlog.overrun(authenticated=True)
    backlog.add([(request, [])])
    assert backlog.overrun(authenticated=True)
    for _ in range(MAX_REQUESTS + 1):
        backlog.done(request)
    assert (backlog.requests, backlog.bytes) == (0, 0)
    backlog.bytes = MAX_BYTES + 1
    assert backlog.overrun(authenticated=True)
