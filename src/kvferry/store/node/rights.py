"""What a user may ask for whose token permits to read alone. What is not named here it may not."""

from __future__ import annotations

from ...errors import RightsError
from ...runtime import Access
from .. import messages as m
from .members import Member

__all__ = ["check_rights"]

_READING: frozenset[type] = frozenset(
    {m.Leave, m.Fetch, m.Locate, m.Lease, m.Renew, m.Release, m.Why, m.Look}
)


def check_rights(member: Member, request: m.Request) -> None:
    """Raises RightsError for what this user may not ask for."""
    if member.rights is Access.READ and type(request) not in _READING:
        raise RightsError(
            f"{type(request).__name__} is not for a token that permits to read alone",
            cause="read_only",
        )
