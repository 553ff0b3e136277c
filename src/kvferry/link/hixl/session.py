"""HIXL, from initialize to finalize."""

from __future__ import annotations

from typing import NamedTuple

from .connections import HixlConnections
from .memory import LocalMemory
from .module import Hixl, Module
from .requests import HixlRequests

__all__ = ["Session"]


class Session(NamedTuple):
    """HIXL, from initialize to finalize."""

    name: str
    module: Module
    hixl: Hixl
    memory: LocalMemory
    requests: HixlRequests
    connections: HixlConnections
