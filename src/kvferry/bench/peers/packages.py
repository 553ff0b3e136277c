"""The packages there are, by name."""

from __future__ import annotations

from .mooncake import Mooncake
from .nixl import Nixl
from .package import Package

__all__ = ["PACKAGES"]

PACKAGES: dict[str, type[Package]] = {"mooncake": Mooncake, "nixl": Nixl}
