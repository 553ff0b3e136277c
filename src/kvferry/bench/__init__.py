"""Measurements, the facts of the machine they were made on, and the doctor who examines it."""

from .doctor import Finding, State, examine
from .machine import Machine, read_machine

__all__ = ["Finding", "Machine", "State", "examine", "read_machine"]
