"""Services that know who calls, and regions for one peer alone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import kvferry as kf


def test_a_service_is_told_who_calls() -> None:
    heard: list[kf.Caller] = []

    def whose(caller: kf.Caller, request: bytes) -> bytes:
        heard.append(caller)
        return request

    with kf.Engine("127.0.0.1:0") as owner, kf.Engine() as peer:
        owner.serve_callers("whose", whose)
        channel = peer.connect(owner.addresses[0])
        assert channel.call("whose", b"mine") == b"mine"
        who = kf.Caller(peer.name, peer.epoch, os.getpid(), link=channel.path.link)
        (caller,) = heard
        assert caller == who._replace(pidfd=caller.pidfd)
        pidfd = caller.pidfd()
        assert pidfd is not None or os.uname().release < "6.5"
        if pidfd is not None:
            told = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
            os.close(pidfd)
            assert f"Pid:\t{os.getpid()}\n" in told
        assert owner.callers == {peer.epoch}
        channel.close()
        deadline = time.monotonic() + 10
        while owner.callers and time.monotonic() < deadline:
            time.sleep(0.001)
        assert owner.callers == frozenset()
        assert caller.pidfd() is None


def test_a_region_for_one_peer_is_told_to_nobody_else() -> None:
    with kf.Engine("127.0.0.1:0") as owner, kf.Engine() as one, kf.Engine() as other:
        early = one.connect(owner.addresses[0])
        owner.allocate("ours", 4096, only=one.epoch)
        assert "ours" in list(one.connect(owner.addresses[0], path="fabric/host").regions)
        assert early.regions["ours"].length == 4096
        with pytest.raises(KeyError):
            other.connect(owner.addresses[0]).regions["ours"]
