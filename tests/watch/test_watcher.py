"""Looking while somebody wants to see, and a real store behind the page."""

from __future__ import annotations

import json
import re
import socket
import time
from contextlib import closing

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed

from kvferry import Engine
from kvferry.store import Store
from kvferry.store.directory import Service
from kvferry.store.seen import Snapshot
from kvferry.store.survey import Survey
from kvferry.watch import Server, Watcher, key_of
from kvferry.watch import watcher as watchers
from tests.store.directory.town import until
from tests.watch.served import EVERY, KEY, Pretended, ask, bearing


def test_it_rests_when_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "AFTER", 0.1)
    survey = Pretended()
    with closing(Watcher(survey, EVERY)) as watcher:  # type: ignore[arg-type]
        assert survey.count == 0
        sight = watcher.next(0, 5.0)
        assert sight is not None
        assert sight.number == 1
        later = watcher.next(sight.number, 0.5)
        assert later is not None
        assert later.past
        time.sleep(1.0)
        count = survey.count
        time.sleep(4 * EVERY)
        assert survey.count == count
        assert watcher.snapshot().moment > later.view.at - 1e9  # one more, as that one is old
        assert survey.count == count + 1
        watcher.snapshot()
        assert survey.count == count + 1


def test_a_look_that_fails_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    survey = Pretended()
    good = survey.seen

    def seen(count: int, moment: float) -> Snapshot:
        if count == 2:
            raise RuntimeError("what nobody expects")
        return good(count, moment)

    survey.seen = seen
    with closing(Watcher(survey, EVERY)) as watcher:  # type: ignore[arg-type]
        numbers = [0]
        for _ in range(3):
            sight = watcher.next(numbers[-1], 5.0)
            assert sight is not None
            numbers.append(sight.number)
    assert "was not seen" in caplog.text
    assert watcher.next(numbers[-1], 5.0) is None  # at once


def test_a_real_store_by_http() -> None:
    with (
        Engine("127.0.0.1:0") as engine,
        closing(Service(engine)),
        Store(listen=["127.0.0.1:0"], size=1 << 20, directory=engine.addresses) as store,
    ):
        key = key_of(engine.derive)
        survey = Survey(engine.addresses[0])
        assert key_of(survey.derive) == key != KEY
        with closing(Server("127.0.0.1:0", key, Watcher(survey, EVERY))) as server:
            port, address = server.where.port, store.engine.addresses[0]
            until(lambda: address.encode() in of(port, key, "/snapshot"))
            store.put_batch(["a", "b"], [b"1" * 100, b"2" * 100])
            store.get("a")
            store.get("c")
            time.sleep(2 * EVERY)
            reads = {
                sample.labels["outcome"]: sample.value
                for family in parsed(of(port, key, "/metrics").decode())
                if family.name == "kvferry_reads"
                for sample in family.samples
            }
            assert (reads["hits"], reads["absent"]) == (1, 1)
            follow(port, key, store, address)


def of(port: int, key: str, path: str) -> bytes:
    return ask(port, bearing(path).replace(KEY.encode(), key.encode())).body


def follow(port: int, key: str, store: Store, address: str) -> None:
    """What is there, and then what goes."""
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        sock.sendall(bearing("/events").replace(KEY.encode(), key.encode()))
        got = b""
        while got.count(b"event: BlockStored") < 2:
            got += sock.recv(1 << 16)
        store.remove("a")
        while b"event: BlockRemoved" not in got or not got.endswith(b"\n\n"):
            got += sock.recv(1 << 16)
    frames = re.findall(rb"event: (\w+)\ndata: (.*)\n\n", got)
    assert frames[0][0] == b"AllBlocksCleared"
    stored = [json.loads(data) for name, data in frames if name == b"BlockStored"]
    (removed,) = [json.loads(data) for name, data in frames if name == b"BlockRemoved"]
    assert removed["digest"] in [each["digest"] for each in stored]
    assert {each["node"] for each in stored} == {removed["node"]} == {address}
