"""Whom a region is there for. Pure; who carries bytes judges by the same rules, natively.

                        tenant's own, to write    to read     another tenant's
region of a tenant      all that is shared        to read     nothing
of one peer alone       nothing, but the one: all that is shared
"""

from __future__ import annotations

from typing import NamedTuple

from ..runtime import Access

__all__ = ["EVERYBODY", "Audience", "Visitor"]


class Visitor(NamedTuple):
    """A peer that proved itself, as far as regions tell peers apart.

    epoch   of its engine
    tenant  whose token it holds, as the engine counts tenants; 0: the engine's own
    rights  what that token permits
    """

    epoch: int
    tenant: int = 0
    rights: Access = Access.WRITE


class Audience(NamedTuple):
    """Who is told of a region, and reaches it.

    tenant  whose peers
    only    the one of them; None: all are. Who comes with other rights is somebody else
    """

    tenant: int = 0
    only: Visitor | None = None

    def admits(self, visitor: Visitor) -> bool:
        return visitor.tenant == self.tenant and self.only in (None, visitor)

    def access(self, visitor: Visitor, shared: Access) -> Access | None:
        """What it may do with memory that is shared so; None: for it there is no such region."""
        if not self.admits(visitor):
            return None
        return shared if self.only is not None else min(visitor.rights, shared, key=_much)


# The engine's own peers.
EVERYBODY = Audience()


def _much(access: Access) -> bool:
    return access is Access.WRITE
