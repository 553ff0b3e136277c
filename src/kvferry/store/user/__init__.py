"""The user's side of a store."""

from .draft import Draft
from .lease import Lease
from .pending import Pending
from .pieces import Pieces
from .reading import Why
from .results import Results
from .store import Store

__all__ = ["Draft", "Lease", "Pending", "Pieces", "Results", "Store", "Why"]
