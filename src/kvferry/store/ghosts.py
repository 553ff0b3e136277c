"""A bounded memory of what is gone."""

from __future__ import annotations

from kvferry._core import Ghosts

__all__ = ["Ghosts"]
