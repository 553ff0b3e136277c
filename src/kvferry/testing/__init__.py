"""What tests stand on: leak checks, processes to talk to, locks that know their order.

Only tests import this folder.
"""

from .leaks import LeakCheck, Leaked
from .lock_audit import LockAudit, places
from .process import Child, ChildFailed, Parent, spawn

__all__ = ["Child", "ChildFailed", "LeakCheck", "Leaked", "LockAudit", "Parent", "places", "spawn"]
