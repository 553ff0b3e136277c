"""A node of a store: what keeps the objects of a host."""

from .node import Node
from .service import Service, own_user
from .verbs import answer, joined

__all__ = ["Node", "Service", "answer", "joined", "own_user"]
