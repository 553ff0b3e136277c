"""Which paths a comparison has: a base, and variants that differ from one in one thing. Pure."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BASE", "VARIANTS", "Variant"]


class Variant(NamedTuple):
    """path     link/submitter/staging
    streams  a transfer is cut over
    varies   the one thing in which it differs, and from what
    """

    path: str
    streams: int
    varies: str

    @property
    def name(self) -> str:
        return f"{self.path.removesuffix('/none')} x {self.streams}"


BASE = Variant("fabric/host/none", 1, "base")

VARIANTS = (
    BASE,
    BASE._replace(path="fabric/inline/none", varies="submitter"),
    BASE._replace(path="fabric/coprocessor/none", varies="submitter"),
    BASE._replace(streams=2, varies="streams"),
    BASE._replace(streams=4, varies="streams"),
    BASE._replace(path="cma/host/none", varies="link"),
    BASE._replace(path="tcp/host/none", varies="link"),
    # Mapped memory has nothing to stage, so staging varies from tcp.
    BASE._replace(path="tcp/host/bounce", varies="staging of tcp"),
)
