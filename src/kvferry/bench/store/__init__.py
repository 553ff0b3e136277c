"""Stores, ours and others, with the same objects put and got in the same run.

    bench process --+-- pipe --> embedded   the process that is the node      [ side ]
                    |-- pipe --> mapped     a user on its host                [ side ]
                    |-- pipe --> far        a user that reaches it over tcp   [ side ]
                    |-- pipe --> mooncake   another store, where it is there  [ side ]
                    '-- crew                what this machine and a tcp link reach alone

A side is where values come from when they are put, and where they go when they are read.
"""

from .asked import Rival, parse_rivals
from .run import Plan, run_store

__all__ = ["Plan", "Rival", "parse_rivals", "run_store"]
