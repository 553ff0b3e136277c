"""Why a file is refused, and what a missing package is called."""

from __future__ import annotations

from ...errors import UsageError

__all__ = ["PACKAGES", "missing", "refused"]

PACKAGES = ("gguf", "tokenizers", "jinja2")


def refused(what: str) -> UsageError:
    """About the contents of a model's file."""
    return UsageError(f"not a model that can be run: {what}", cause="model_file")


def missing(package: str) -> UsageError:
    return UsageError(
        f"the demo needs the package {package}: pip install {' '.join(PACKAGES)}",
        cause="demo_extra",
    )
