"""What a node is told about directories."""

from __future__ import annotations

from typing import NamedTuple

from ...address import parse
from ...errors import UsageError

__all__ = ["RATE", "Directed"]

RATE = 64 << 20
LONGEST = 256  # characters of a domain


class Directed(NamedTuple):
    """addresses  where there are directories, one of which leads; none: the node is alone
    domain     nodes of one domain fail together; "": its machine is the domain
    copy_rate  bytes a second, at most, that it copies to other nodes when a directory wants it
    """

    addresses: tuple[str, ...] = ()
    domain: str = ""
    copy_rate: int = RATE

    def checked(self) -> Directed:
        """Itself. Raises UsageError (address, domain, bad_size)."""
        for address in self.addresses:
            parse(address)
        if len(self.domain) > LONGEST:
            raise UsageError(f"a domain has {LONGEST} characters at most", cause="domain")
        if self.copy_rate < 1:
            raise UsageError(f"{self.copy_rate} bytes a second are no rate", cause="bad_size")
        return self
