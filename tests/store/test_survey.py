"""Looking at a store from outside: a directory's nodes, and a node alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kvferry import Engine, Options
from kvferry.config import from_environment
from kvferry.errors import UsageError
from kvferry.store import Store
from kvferry.store.directory import BlockStored, Service
from kvferry.store.directory import messages as d
from kvferry.store.directory.line import Line
from kvferry.store.messages import Looked
from kvferry.store.seen import Snapshot
from kvferry.store.survey import Survey, _Post
from tests.store.directory.town import town, until, value_of
from tests.store.settings import settings


def seen_when(survey: Survey, true: Callable[[Snapshot], object]) -> Snapshot:
    seen = [survey.take()]
    until(lambda: true(seen[-1]) or seen.append(survey.take()))
    return seen[-1]


def test_a_node_alone_tells_what_it_has(folder: Path) -> None:
    unix = f"unix://{folder}/node"
    with Store(listen=[unix], size=1 << 20) as owner, Store(unix) as user, Survey(unix) as survey:
        user.put("a", b"1" * 5000)
        assert user.get("a") == b"1" * 5000
        assert user.get("b") is None
        (node,) = survey.take().nodes
        owner.remove("a")
        (later,) = survey.take().nodes
        assert owner.stats()["users"]["users"] == 2  # who looks is none
    assert (node.why, node.standing, node.own.usage["capacity"]) == ("", None, 1 << 20)
    assert node.own.reads["hits"] == node.own.reads["absent"] == 1
    assert node.own.came["objects"] == 1
    assert node.own.traffic == {"fabric.read": 5000}
    assert later.own.left["removed"] == 1
    assert later.own.left_bytes["removed"] == node.own.came["bytes"]
    assert later.epoch == node.epoch


def test_bytes_of_users_afar_are_counted_by_their_way(folder: Path) -> None:
    with settings("far", folder) as setting:
        unix, _ = setting.owner.engine.addresses
        setting.user.put_batch(["a", "b"], [bytes(3000), bytes(70_000)])
        assert setting.user.get("b") == bytes(70_000)
        with Survey(unix) as survey:
            (node,) = survey.take().nodes
    assert node.own.traffic == {"tcp.read": 70_000, "tcp.written": 73_000}


def test_a_directory_tells_of_its_nodes_and_one_that_is_stopped_delays_nobody() -> None:
    with town() as there:
        directory = there.directory()
        one, two = (there.node() for _ in "ab")
        with Survey(f"kv://{directory.address}") as survey:
            one.put("a")
            seen = seen_when(
                survey, lambda seen: (len(seen.nodes), seen.directory.get("keys")) == (2, 1)
            )
            rows = {node.address: node for node in seen.nodes}
            standing = rows[one.address].standing
            assert standing is not None
            assert (standing.keys, standing.state, standing.capacity) == (1, "alive", 1 << 20)
            assert rows[one.address].own.came["bytes"] >= len(value_of("a"))

            two.stop()
            for _ in "ab":
                began = time.monotonic()
                seen = survey.take()
                assert time.monotonic() - began < 2.5
                whys = {node.address: node.why for node in seen.nodes}
                assert whys[one.address] == ""
                assert whys.get(two.address, "it is dead by now")
            seen_when(survey, lambda seen: len(seen.nodes) == 1)  # it is dead by now
            two.go_on()
            seen_when(survey, lambda seen: [node.why for node in seen.nodes] == ["", ""])

            directory.kill()
            seen = seen_when(survey, lambda seen: seen.why)
            assert [node.why for node in seen.nodes] == ["", ""]  # of which it told before
        one.end()
        two.end()


def test_a_node_leads_to_the_directory_that_it_names() -> None:
    with Engine("127.0.0.1:0") as engine:
        service = Service(engine)
        try:
            (directory,) = engine.addresses
            with Store(listen=["127.0.0.1:0"], size=1 << 20, directory=[directory]) as store:
                (address,) = store.engine.addresses
                with Survey(address) as survey:
                    service.page = "http://127.0.0.1:1"
                    seen = seen_when(survey, lambda seen: seen.nodes)
                    assert seen.nodes[0].standing is not None
                    assert seen.page == "http://127.0.0.1:1"
                    store.put("a", b"1")
                    follower = survey.follower()
                    told: list[object] = []
                    until(lambda: told.extend(follower.step()) or len(told) > 1)
                    assert isinstance(told[1], BlockStored)
        finally:
            service.close()


def test_a_node_may_name_what_is_no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    look = _Post.look

    def misled(post: _Post) -> Looked:
        return msgspec.structs.replace(look(post), directory=("no where",))

    monkeypatch.setattr(_Post, "look", misled)
    with (
        Store(listen=["127.0.0.1:0"], size=1 << 20) as store,
        Survey(store.engine.addresses[0]) as survey,
    ):
        seen = survey.take()
    assert [node.why for node in seen.nodes] == [""]
    assert "no where" in seen.why


def test_a_name_is_whatever_somebody_told() -> None:
    with Engine("127.0.0.1:0") as engine, Engine() as stranger:
        service = Service(engine)
        try:
            line = Line(stranger, engine.addresses, 5.0)
            hello = {"began": 1, "domain": "d", "capacity": 1, "free": 0, "keys": 1}
            line.ask(d.Enroll(version=d.VERSION, address="<b>'&x:1", **hello), d.Enrolled)
            with Survey(engine.addresses[0]) as survey:
                (node,) = survey.take().nodes
            assert node.address == "<b>'&x:1"
            assert node.why
        finally:
            service.close()


def test_nobody_there(folder: Path) -> None:
    with Survey(f"unix://{folder}/nobody") as survey:
        seen = survey.take()
    assert seen.why
    assert seen.nodes == ()
    with pytest.raises(UsageError):
        Survey("nowhere")


def test_another_token_sees_nothing(folder: Path) -> None:
    unix = f"unix://{folder}/node"
    options = from_environment()
    other = Options(token_file=options.token_file, token=b"another token of ours")
    with Store(listen=[unix], size=1 << 20), Survey(unix, options=other) as survey:
        seen = survey.take()
        assert seen.nodes == ()
        assert "token" in seen.why
