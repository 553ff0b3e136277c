"""Whose peers an engine serves: a token names a tenant, and what its holder may do. Pure.

    token of the engine          tenant ""    number 0    reads and writes
    Tenant.token                 its name     1, 2, ...   reads and writes
    Tenant.read_token            the same     the same    reads

Regions and services belong to one tenant; for peers of another there are none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..config import Options
from ..errors import RightsError, UsageError
from ..rpc import auth
from ..runtime import Access

__all__ = ["Badge", "Keyring", "Tenant", "Tenants", "check_links"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Tenant(NamedTuple):
    """By what its peers are known.

    token       whose holders read and write
    read_token  whose holders read; None: there are none
    """

    token: bytes
    read_token: bytes | None = None


class Badge(NamedTuple):
    """What a token stands for.

    tenant  its name
    number  by which the engine counts it
    """

    tenant: str = ""
    number: int = 0
    rights: Access = Access.WRITE


class Tenants:
    """Those that an engine has beside its own peers. Raises UsageError for what is no name, and for
    a token that is none, or another's."""

    def __init__(self, tenants: Mapping[str, Tenant]) -> None:
        self._tenants = dict(tenants)
        self._numbers = {"": 0}
        for name, tenant in self._tenants.items():
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise UsageError(f"{name!r} is no name of a tenant", cause="tenant")
            if not isinstance(tenant, Tenant):
                raise UsageError(f"of {name!r} no Tenant is told", cause="tenant")
            self._numbers[name] = len(self._numbers)
        self.tokens = dict(self._told())

    def __len__(self) -> int:
        return len(self._tenants)

    def number(self, name: str) -> int:
        """Raises UsageError for a tenant that there is not."""
        try:
            return self._numbers[name]
        except KeyError:
            raise UsageError(f"there is no tenant {name!r}", cause="tenant") from None

    def token(self, name: str) -> bytes:
        """Of its holders who write."""
        self.number(name)
        return self._tenants[name].token

    def _told(self) -> list[tuple[bytes, Badge]]:
        """Every token, with what it stands for."""
        told = []
        for name, tenant in self._tenants.items():
            number = self._numbers[name]
            told.append((tenant.token, Badge(name, number, Access.WRITE)))
            if tenant.read_token is not None:
                told.append((tenant.read_token, Badge(name, number, Access.READ)))
        seen: set[bytes] = set()
        for token, badge in told:
            if not isinstance(token, bytes) or not token:
                raise UsageError(f"a token of {badge.tenant!r} is empty", cause="token")
            if token in seen:
                raise UsageError(
                    f"a token of {badge.tenant!r} stands for something else, too", cause="token"
                )
            seen.add(token)
        return told


class Keyring:
    """All tokens that open an engine. Raises RightsError when a tenant's is the engine's own."""

    def __init__(self, own: bytes, tenants: Tenants | None = None) -> None:
        others = {} if tenants is None else tenants.tokens
        if own in others:
            raise RightsError(
                f"the engine's own token is one of {others[own].tenant!r}, too", cause="token"
            )
        self._badges = {own: Badge(), **others}

    def holder(self, transcript: auth.Transcript, proof: bytes) -> tuple[Badge, bytes] | None:
        """Whose token the client proves to hold, and that token. Every token is tried, so that the
        time it takes does not tell which it was."""
        found = None
        for token, badge in self._badges.items():
            if auth.verify(token, auth.Role.CLIENT, transcript, proof):
                found = badge, token
        return found


def check_links(options: Options) -> None:
    """Raises UsageError where an engine with tenants would have a way around them."""
    if options.hixl is not None:
        raise UsageError(
            "tenants and hixl contradict each other: HIXL shows all that is registered to whoever "
            "finds its port",
            cause="contradiction",
        )
    if options.runtime != "host" and not options.acl_pids:
        raise UsageError(
            "tenants and acl_pids=False contradict each other: every process could import what it "
            "guesses the handle of",
            cause="contradiction",
        )
