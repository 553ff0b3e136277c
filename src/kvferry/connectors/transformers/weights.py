"""What stored KV is of: a config, and weights."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ...errors import UsageError
from .adapters import digest_of, split, unwrapped

__all__ = ["Marks", "named"]

# Of a config, what says nothing about KV; the dtype of KV stands in the layout.
ASIDE = {
    "_name_or_path",
    "_model_name_or_path",
    "architectures",
    "dtype",
    "torch_dtype",
    "transformers_version",
    "use_cache",
}
MARKS = 8


def named(model: Any, revision: str | None) -> tuple[str, str]:
    """Name and revision of a model, for its LayoutRecord; without a revision all its weights are
    read."""
    inner = unwrapped(model)
    config = {key: value for key, value in inner.config.to_dict().items() if key not in ASIDE}
    written = json.dumps(config, sort_keys=True, default=str)
    digest = hashlib.sha256(written.encode()).hexdigest()
    weights = digest_of(split(model)[0]) if revision is None else f"named {revision}"
    return f"{type(inner).__name__} {digest}", weights


class Marks:
    """Some numbers of each weight as they were: whether they still are is seen in milliseconds.

    What changes a few numbers alone, and past torch's count of changes, is not seen.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._marks = _marks(model)

    def check(self) -> None:
        """Raises UsageError (weights) if they changed."""
        if _marks(self._model) != self._marks:
            raise UsageError(
                "the weights are not those that Prefixes was made with: make another one",
                cause="weights",
            )


def _marks(model: Any) -> list[Any]:
    return [_mark(name, tensor) for name, tensor in split(model)[0]]


def _mark(name: str, tensor: Any) -> tuple[Any, ...]:
    version = 0 if tensor.is_inference() else tensor._version
    flat = tensor.detach().reshape(-1)
    some = flat[:: max(1, len(flat) // MARKS)].tolist()
    return name, tuple(tensor.shape), tensor.dtype, version, some
