"""Which nodes have which keys: a directory that nodes report to and users ask.

The directory  membership, placement, repair and, of these, directory, which are pure; service, lead
               and hosted carry it out
A node         directed: what it is told; journal: what happened; herald: who tells it; copier
Both           messages, and line: the way to whoever leads
"""

from .directed import Directed
from .directory import ROWS, Directory
from .hosted import hosted
from .lead import Alone, Lead
from .membership import Spans
from .service import Service

__all__ = ["ROWS", "Alone", "Directed", "Directory", "Lead", "Service", "Spans", "hosted"]
