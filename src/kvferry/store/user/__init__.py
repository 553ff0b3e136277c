"""The user's side of a store."""

from .lease import Lease
from .pending import Pending
from .reading import Why
from .results import Results
from .store import Store

__all__ = ["Lease", "Pending", "Results", "Store", "Why"]
