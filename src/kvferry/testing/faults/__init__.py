"""Faults as parameters: what goes wrong, and when, is an argument of the scenario.

Crew     processes that are killed, stopped, started anew, or read nothing
FailAt   the n-th call of this process that fails; Errand: what it does meanwhile
Proxy    what comes to the bytes between two engines; Stranger: in place of one
"""

from .crew import Crew
from .errand import Errand
from .failing import FailAt
from .proxy import Proxy
from .stranger import Stranger

__all__ = ["Crew", "Errand", "FailAt", "Proxy", "Stranger"]
