"""Tensors over a store of this process, once a file."""

from __future__ import annotations

from typing import Any

import pytest

from .shelf import Bytes


@pytest.fixture(scope="module")
def shelf() -> Any:
    """Makes empty stores."""
    from mooncake.tensors import Tensors

    return type("Shelf", (Bytes, Tensors), {})
