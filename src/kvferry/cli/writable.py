"""Files that a command is to write, looked at before it spends a minute on what goes in."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import UsageError

__all__ = ["check_writable"]


def check_writable(*files: Path | None) -> None:
    """Raises UsageError (file) for the first that cannot be written; None is nothing to write."""
    for file in files:
        if file is not None:
            there = file if file.exists() else file.parent
            if file.is_dir() or not os.access(there, os.W_OK):
                raise UsageError(f"cannot write {file}", cause="file")
