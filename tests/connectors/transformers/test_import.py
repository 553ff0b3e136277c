"""Without what it connects to."""

from __future__ import annotations

import importlib
import sys

import pytest

from kvferry.errors import UsageError

NAME = "kvferry.connectors.transformers"


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_says_what_to_install(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in [name for name in sys.modules if name.startswith(NAME)]:
        monkeypatch.delitem(sys.modules, loaded)
    for name in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, sys)  # anything
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match="pip install torch transformers") as caught:
        importlib.import_module(NAME)
    assert caught.value.cause == f"no_{missing}"
    assert NAME not in sys.modules
