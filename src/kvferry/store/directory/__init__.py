"""Which nodes have which keys: a directory that nodes report to and users ask.

The directory  membership, placement, repair, names, events and, of these, directory, which are
               pure; service, lead and hosted carry it out
A node         directed: what it is told; journal: what happened; herald: who tells it; copier
Both           messages, and line: the way to whoever leads
Others         following: what comes and goes; listing: names of keys
"""

from .directed import Directed
from .directory import ROWS, Directory
from .events import AllBlocksCleared, BlockRemoved, BlockStored, Event
from .following import Follower, Following, follow
from .hosted import hosted
from .lead import Alone, Lead
from .membership import Spans
from .service import Service

__all__ = [
    "ROWS",
    "AllBlocksCleared",
    "Alone",
    "BlockRemoved",
    "BlockStored",
    "Directed",
    "Directory",
    "Event",
    "Follower",
    "Following",
    "Lead",
    "Service",
    "Spans",
    "follow",
    "hosted",
]
