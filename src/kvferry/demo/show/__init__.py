"""What ``kvferry demo`` shows.

document   a text, and questions about it
script     who is asked what, and what that takes; checked before anything starts
performance  the processes; scenes: served, served again from the store, computed plainly
summary    figures out of that; lines: as text; timeline: as a picture
speech     tokens as readable text; stage: all of it on a terminal, or anywhere else
beside     the store's node, seen from outside
"""

from .performance import Performance, perform
from .scenes import Played
from .script import Script, write_script
from .stage import Stage
from .summary import Summary, summary_of

__all__ = [
    "Performance",
    "Played",
    "Script",
    "Stage",
    "Summary",
    "perform",
    "summary_of",
    "write_script",
]
