"""Directories elect one of them, over a model of etcd and over a real one."""

from __future__ import annotations

import os
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry.errors import PeerError, UsageError
from kvferry.store.directory.election import SECOND, Candidate, Election, State
from kvferry.store.directory.etcd import Etcd, Held
from kvferry.testing.faults.party import until
from tests.store.directory.etcd_server import EtcdServer

TTL = 2


class ModelEtcd:
    """Leases and one key; requests that are lost, and answers that are."""

    def __init__(self) -> None:
        self.now = 0
        self.revision = 0
        self.leases: dict[int, int] = {}
        self.held: tuple[Held, int] | None = None
        self.lose = ""

    def _expire(self) -> None:
        self.leases = {lease: end for lease, end in self.leases.items() if end > self.now}
        if self.held is not None and self.held[1] not in self.leases:
            self.held = None

    def _begin(self) -> None:
        self._expire()
        if self.lose == "request":
            raise PeerError("lost", cause="etcd_unreachable")

    def _end(self) -> None:
        if self.lose == "answer":
            raise PeerError("lost", cause="etcd_unreachable")

    def grant(self, ttl: int) -> tuple[int, int]:
        self._begin()
        self.revision += 1
        self.leases[self.revision] = self.now + ttl * SECOND
        self._end()
        return self.revision, ttl

    def keep(self, lease: int) -> bool:
        self._begin()
        there = lease in self.leases
        if there:
            self.leases[lease] = self.now + TTL * SECOND
        self._end()
        return there

    def claim(self, key: str, value: bytes, lease: int) -> Held:
        self._begin()
        if self.held is None and lease in self.leases:
            self.revision += 1
            self.held = Held(value, self.revision), lease
        self._end()
        if self.held is None:
            raise PeerError("no such lease", cause="etcd_unreachable")
        return self.held[0]


STEPS = st.tuples(
    st.integers(0, 2),  # whose turn it is
    st.sampled_from(["", "", "", "request", "answer"]),  # what is lost
    st.integers(0, SECOND),  # how long after the step before
)


@settings(deadline=None)
@given(st.lists(STEPS, max_size=80))
def test_at_no_moment_do_two_lead_and_no_two_share_a_term(
    steps: list[tuple[int, str, int]],
) -> None:
    etcd = ModelEtcd()
    some = [
        Candidate(etcd, "key", [f"dir{n}:1"], TTL, lambda: etcd.now)  # type: ignore[arg-type]
        for n in range(3)
    ]
    leads = [0, 0, 0]
    terms: dict[int, int] = {}
    latest = 0
    for who, lose, later in steps:
        etcd.now += later
        etcd.lose = lose
        try:
            seen = some[who].round()
        except PeerError:
            continue
        leads[who] = seen.until
        if seen.until:
            assert seen.leader == (f"dir{who}:1",)
            assert terms.setdefault(seen.term, who) == who
            assert seen.term >= latest
            latest = seen.term
        assert sum(end > etcd.now for end in leads) <= 1


def test_one_that_is_alone_leads_and_lasts() -> None:
    etcd = ModelEtcd()
    one = Candidate(etcd, "key", ["dir:1"], TTL, lambda: etcd.now)  # type: ignore[arg-type]
    for _ in range(20):
        seen = one.round()
        assert seen.until > etcd.now
        assert one.state is State.LEADING
        etcd.now += SECOND
    etcd.now += 10 * SECOND
    assert one.round().until == 0  # the lease had ended
    assert one.round().until > etcd.now


@pytest.mark.parametrize("cluster", ["", "a/b", "a\n"])
def test_a_cluster_without_a_good_name_is_refused(cluster: str) -> None:
    with pytest.raises(UsageError, match="cluster"):
        Election(["http://127.0.0.1:1"], cluster, ["dir:1"])


@pytest.mark.parametrize(
    "endpoint", ["", "127.0.0.1:2379", "ftp://host", "http://", "http://host:0", "http://host:x"]
)
def test_an_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    with pytest.raises(UsageError, match="http://host:2379"):
        Etcd([endpoint], timeout=1)


# ---- servers that are no etcd ----

ANSWERS = [
    b"",
    b"\x00" * 100,
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{",
    b"HTTP/1.1 200 OK\r\n\r\n[[[[[[[[",
    b'HTTP/1.1 200 OK\r\n\r\n{"ID":"-5","TTL":"2"}',
    b'HTTP/1.1 200 OK\r\n\r\n{"ID":"x","TTL":"2"}',
    b'HTTP/1.1 500 No\r\n\r\n{"ID":"5","TTL":"2"}',
    b"HTTP/1.1 200 OK\r\n" + b"x" * 100_000,
]


@pytest.fixture
def stranger(request: pytest.FixtureRequest) -> Iterator[str]:
    """Answers everything with the same bytes."""

    class Answers(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4096)
            self.request.sendall(request.param)

    with socketserver.TCPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("stranger", ANSWERS, indirect=True, ids=range(len(ANSWERS)))
def test_what_is_no_etcd_is_told_apart(stranger: str) -> None:
    with pytest.raises(PeerError) as told:
        Etcd([stranger], timeout=1).grant(TTL)
    assert told.value.cause == "etcd_unreachable"


# ---- a real one ----

CANDIDATE = """
import sys, time
from kvferry.store.directory.election import Election
election = Election([sys.argv[1]], "test", [sys.argv[2]], ttl=int(sys.argv[3]))
before = None
while True:
    said = election.leads, election.term
    if said[0] != (before or (False,))[0]:
        print(*map(int, said), flush=True)
        before = said
    time.sleep(0.005)
"""


class Party:
    """A candidate in a process of its own; `said`: whether it leads, and in which term."""

    def __init__(self, endpoint: str, name: str) -> None:
        self.said: list[tuple[bool, int]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-c", CANDIDATE, endpoint, name, str(TTL)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            leads, term = line.split()
            self.said.append((leads == "1", int(term)))

    @property
    def leads(self) -> bool:
        return bool(self.said) and self.said[-1][0]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    server = EtcdServer(tmp_path)
    yield server
    server.kill()


@pytest.fixture
def parties(etcd: EtcdServer) -> Iterator[list[Party]]:
    some = [Party(etcd.endpoint, f"dir{n}:1") for n in range(2)]
    yield some
    for each in some:
        each.end()


def leader_of(parties: list[Party]) -> Party:
    until(lambda: any(each.leads for each in parties), "somebody leads")
    (leader,) = [each for each in parties if each.leads]
    return leader


def check_terms(parties: list[Party]) -> None:
    """No two led in the same term."""
    terms = [{term for leads, term in each.said if leads} for each in parties]
    assert not set.intersection(*terms)


def test_a_killed_leader_has_a_successor(parties: list[Party]) -> None:
    leader = leader_of(parties)
    (other,) = [each for each in parties if each is not leader]
    leader.process.kill()
    until(lambda: other.leads, "the other leads")
    assert other.said[-1][1] > leader.said[-1][1]
    check_terms(parties)


def test_a_leader_that_stood_still_finds_its_time_over(parties: list[Party]) -> None:
    leader = leader_of(parties)
    (other,) = [each for each in parties if each is not leader]
    os.kill(leader.process.pid, signal.SIGSTOP)
    until(lambda: other.leads, "the other leads")
    os.kill(leader.process.pid, signal.SIGCONT)
    until(lambda: not leader.leads, "the first knows")
    assert other.leads
    check_terms(parties)


@pytest.mark.parametrize("fault", ["stopped", "killed"])
def test_without_etcd_nobody_leads_for_long(
    etcd: EtcdServer, parties: list[Party], fault: str
) -> None:
    leader_of(parties)
    if fault == "stopped":
        etcd.stop()
    else:
        etcd.kill()
    until(lambda: not any(each.leads for each in parties), "nobody leads")
    if fault == "stopped":
        etcd.go_on()
    else:
        etcd.start()
    leader_of(parties)
    check_terms(parties)


def test_who_is_closed_makes_way_at_once(etcd: EtcdServer) -> None:
    first = Election([etcd.endpoint], "test", ["dir0:1"], ttl=60)
    until(lambda: first.leads, "the first leads")
    second = Election([etcd.endpoint], "test", ["dir1:1"], ttl=2)
    until(lambda: second.leader == ("dir0:1",), "the second knows of it")
    first.close()
    until(lambda: second.leads, "the second leads")
    assert not first.leads
    second.close()


def test_what_stands_in_the_way_is_no_leader(etcd: EtcdServer) -> None:
    raw = Etcd([etcd.endpoint], timeout=1)
    lease, _ = raw.grant(60)
    raw.claim("/kvferry/test/leader", b"\xff nothing of ours", lease)
    one = Election([etcd.endpoint], "test", ["dir:1"], ttl=2)
    until(lambda: one._candidate.state is State.SEEKING, "it tried")
    assert not one.leads
    assert one.leader == ()
    raw.revoke(lease)
    until(lambda: one.leads, "it leads when that is gone")
    one.close()


WITHOUT_SSL = """
import sys
sys.modules["ssl"] = None
import kvferry.cli.directory
from kvferry.errors import Unsupported
from kvferry.store.directory.election import Election
assert "http.client" not in sys.modules
from kvferry.store.directory.etcd import Etcd
Etcd(["http://127.0.0.1:1"], 1.0)
try:
    Etcd(["https://127.0.0.1:1"], 1.0)
except Unsupported as error:
    print(error.cause)
"""


def test_who_asks_no_etcd_needs_no_ssl() -> None:
    command = [sys.executable, "-c", WITHOUT_SSL]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (told.stdout, told.stderr) == ("no_ssl\n", "")
