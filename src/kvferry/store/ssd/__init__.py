"""The SSD tier: what arrives in memory is written behind, into segments that leave whole.

log        Log: append, read, drop; what a crash leaves is whole records
segment    a file of runs, sealed by an index beside it
record     how rows and values lie in a run
identity   whose folder it is
shelf      which object lies at which place; pure, as are segments and backlog
behind     what is written behind; a witness of the catalog
writer     the thread that appends, and makes room for it
promotion  brings objects back into memory
tier       all of it, for a node
"""

from .setup import Ssd, set_up, ssd_of
from .tier import Tier, clocks

__all__ = ["Ssd", "Tier", "clocks", "set_up", "ssd_of"]
