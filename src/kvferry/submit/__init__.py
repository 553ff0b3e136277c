"""Submitters: who puts a transfer's copies in motion, on links whose copies run on streams."""

from .base import Slot, Submitter
from .host import HostSubmitter
from .inline import InlineSubmitter
from .slots import SlotPool

__all__ = ["HostSubmitter", "InlineSubmitter", "Slot", "SlotPool", "Submitter"]
