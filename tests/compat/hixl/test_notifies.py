"""Notifies: their limits, their order, and the queue."""

from __future__ import annotations

import hixl

import kvferry as kf

from .conftest import FABRIC, MakeSide, Start


def received(engine: hixl.Hixl) -> list[tuple[str, str]]:
    status, found = engine.get_notifies()
    assert status == hixl.SUCCESS
    return [(each.name, each.notify_msg) for each in found]


def test_they_arrive_in_order_and_the_queue_is_drained(side: MakeSide, start: Start) -> None:
    ours, theirs = start(options=FABRIC), side(FABRIC)
    assert ours.send_notify(theirs.name, hixl.NotifyDesc("a", "b")) == hixl.NOT_CONNECTED
    ours.connect(theirs.name)
    sent = [("", ""), ("name", "text"), ("ü" * 1024, "漢\0\ud800" * 341 + "!")]
    for name, text in sent:
        assert ours.send_notify(theirs.name, hixl.NotifyDesc(name, text)) == hixl.SUCCESS
    assert received(theirs.engine) == sent
    assert received(theirs.engine) == received(ours) == []


def test_what_is_too_long_is_not_sent(side: MakeSide, start: Start) -> None:
    ours, theirs = start(), side()
    ours.connect(theirs.name)
    for desc in (hixl.NotifyDesc("n" * 1025, ""), hixl.NotifyDesc("", "m" * 1025)):
        assert ours.send_notify(theirs.name, desc) == hixl.PARAM_INVALID
    assert received(theirs.engine) == []


def test_4096_wait_and_no_more(side: MakeSide) -> None:
    ours = side()
    ours.engine.connect(ours.name)
    desc = hixl.NotifyDesc("n", "m")
    sent = [ours.engine.send_notify(ours.name, desc) for _ in range(4097)]
    assert sent == [hixl.SUCCESS] * 4096 + [hixl.RESOURCE_EXHAUSTED]
    assert len(received(ours.engine)) == 4096
    assert ours.engine.send_notify(ours.name, desc) == hixl.SUCCESS


def test_what_others_send_is_taken_or_left_out(side: MakeSide) -> None:
    theirs = side()
    with kf.Engine() as other:
        channel = other.connect(theirs.name)
        channel.notify("plain", b"text")
        channel.notify("plain", b"\xff")
        for message in (b"", b"{}", b"[1, 2]", b'["one"]'):
            channel.notify("hixl.notify", message)
    assert received(theirs.engine) == [("plain", "text")]
