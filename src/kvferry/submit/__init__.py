"""Submitters: who puts a transfer's copies in motion, on links whose copies run on streams."""

from .._core import LOGICAL_MOST
from .base import Slot, Submitter
from .coprocessor import CoprocessorSubmitter
from .host import HostSubmitter
from .inline import InlineSubmitter
from .pool import PoolSpec
from .slots import SlotPool
from .submitters import Submitters

__all__ = [
    "LOGICAL_MOST",
    "CoprocessorSubmitter",
    "HostSubmitter",
    "InlineSubmitter",
    "PoolSpec",
    "Slot",
    "SlotPool",
    "Submitter",
    "Submitters",
]
