"""A user and a node on two hosts, with TLS between them, and somebody who listens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="certificates are made with the cryptography package")

from kvferry.engine import connect
from kvferry.rpc import token
from kvferry.store import Store
from tests.certificates import Authority
from tests.store.settings import over_tcp
from tests.wiretap import Wiretap

SIZES = (100, 5000, 700_000)


def test_neither_keys_nor_values_nor_the_token_are_heard(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in Authority(tmp_path).issue("127.0.0.1").variables().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(connect, "_same_host", lambda ours, theirs: False)
    values = {f"a-key-of-{size}": os.urandom(size) for size in SIZES}
    with Store(listen=(f"unix://{folder}/node", "127.0.0.1:0"), size=4 << 20) as owner:
        host, port = owner.engine.addresses[1].split(":")
        with Wiretap((host, int(port))) as tap:
            with over_tcp(), Store(f"kv://{tap.address}") as user:
                for key, value in values.items():
                    user.put(key, value)
                for key, value in values.items():
                    assert bytes(user.get(key)) == bytes(owner.get(key)) == value
                assert user.get("a-key-of-nobody") is None
            heard = bytes(tap.heard)
        assert len(heard) > 2 * sum(SIZES)
        assert token.load(owner.engine.options) not in heard
        assert b"a-key-of" not in heard
        for value in values.values():
            assert not any(value[at : at + 16] in heard for at in range(0, len(value), 9973))
