"""Tenants with a disk: a folder each, which nobody else's token opens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import kvferry as kf
from kvferry.errors import UsageError
from kvferry.store import Store
from kvferry.store.node import Node, Nodes, Plan
from tests.store.node.tenancy import OWN, A, B, options

MIB = 1 << 20
SIZE = 100_000


@contextmanager
def host(folder: Path, tokens: dict[str, bytes]) -> Iterator[list[Store]]:
    """A user of each tenant; what they put is on the disk at the end."""
    plans = {name: Plan(kf.Tenant(token), MIB, None, 4 * MIB) for name, token in tokens.items()}
    tenants = {name: plan.tenant for name, plan in plans.items()}
    address = f"unix://{folder}/node"
    with kf.Engine(address, options=options(OWN), tenants=tenants) as engine:
        nodes = Nodes(engine, Node(engine, MIB), plans, folder / "ssd")
        try:
            with ExitStack() as made:
                yield [
                    made.enter_context(Store(address, options=options(token)))
                    for token in tokens.values()
                ]
        finally:
            nodes.close()


def test_each_has_its_own(folder: Path) -> None:
    keys = [f"key {at}" for at in range(14)]  # more than fit into memory
    for _ in range(2):  # what was there is there again
        with host(folder, {"a": A, "b": B}) as users:
            for number, user in enumerate(users):
                for key in keys:
                    user.put(key, bytes([number]) * SIZE)
            for number, user in enumerate(users):
                there = [each for each in user.get_batch(keys) if each is not None]
                assert set(there) == {bytes([number]) * SIZE}
            assert users[0].stats()["ssd"]["objects"] > 0
    assert {path.name for path in (folder / "ssd").iterdir()} == {"tenant.a", "tenant.b"}


def test_another_token_opens_no_folder(folder: Path) -> None:
    with host(folder, {"a": A, "b": B}) as users:
        users[0].put("key", b"of a")
    for tokens in ({"a": A + b"!", "b": B}, {"a": B, "b": A}):
        with pytest.raises(UsageError) as error, host(folder, tokens):
            pass
        assert error.value.cause == "ssd_owner"
    (folder / "ssd" / "tenant.a").rename(folder / "ssd" / "tenant.c")
    with pytest.raises(UsageError) as error, host(folder, {"c": A}):
        pass
    assert error.value.cause == "ssd_owner"
    (folder / "ssd" / "tenant.c").rename(folder / "ssd" / "tenant.a")
    with host(folder, {"a": A, "b": B}) as users:  # nothing was touched
        assert users[0].get("key") == b"of a"
        assert users[1].get("key") is None


@pytest.mark.parametrize("name", ["../a", "a/b", "..", "a" * 65, ""])
def test_no_name_leads_elsewhere(name: str, folder: Path) -> None:
    with pytest.raises(UsageError) as error, host(folder, {name: A}):
        pass
    assert error.value.cause == "tenant"
    assert not (folder / "ssd").exists()
