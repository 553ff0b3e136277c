"""A user of this host whose process the node cannot see, as in a container of its own processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvferry.engine import Caller
from kvferry.engine.inbound import Inbound
from kvferry.errors import PeerError
from kvferry.store import Answer, Store
from kvferry.store.user.far import Far


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel gives such a process the number 0."""
    caller = Inbound._caller
    monkeypatch.setattr(Inbound, "_caller", lambda self: Caller(*caller(self)[:2], 0))


@pytest.mark.usefixtures("unseen")
def test_it_writes_over_a_wire(folder: Path) -> None:
    """What it has reserved is free when its channel is over, so it may not have it mapped."""
    listen = [f"unix://{folder}/node", "127.0.0.1:0"]
    with Store(size=1 << 20, listen=listen) as owner, Store(listen[0]) as user:
        home: Any = user._own.home
        assert isinstance(home, Far)
        assert home._channel.regions["store.pool"].mapping is None
        assert user.put("k", b"value") is Answer.STORED
        assert owner.get("k") == user.get("k") == b"value"


@pytest.mark.usefixtures("unseen")
def test_without_a_wire_it_is_refused(folder: Path) -> None:
    listen = [f"unix://{folder}/node"]
    with (
        Store(size=1 << 20, listen=listen),
        pytest.raises(PeerError, match="listens on no tcp address"),
    ):
        Store(listen[0])
