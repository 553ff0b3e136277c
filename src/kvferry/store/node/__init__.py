"""A node of a store: what keeps the objects of a host."""

from .node import Node
from .service import Service, own_user
from .tenants import Nodes, Plan, load
from .verbs import answer, joined

__all__ = ["Node", "Nodes", "Plan", "Service", "answer", "joined", "load", "own_user"]
