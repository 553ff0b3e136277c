"""What route bytes take, as one value: link, submitter, staging.

A path says what is permitted; a report counts what happened.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeVar

from .errors import UsageError

E = TypeVar("E", bound=Enum)

__all__ = ["PRESETS", "Addressing", "LinkKind", "Path", "Staging", "SubmitterKind", "parse"]


class LinkKind(str, Enum):
    """How the bytes cross."""

    LOOPBACK = "loopback"
    FABRIC = "fabric"


class SubmitterKind(str, Enum):
    """Who puts the copies in motion."""

    INLINE = "inline"
    HOST = "host"


class Staging(str, Enum):
    """Whether bytes pass through a registered pool on their way."""

    NONE = "none"


class Addressing(str, Enum):
    """How remote memory is named. Mapped: it lies in this process's address space, too."""

    MAPPED = "mapped"


class Path(NamedTuple):
    """One route. Compares and prints as ``link/submitter/staging``."""

    link: LinkKind
    submitter: SubmitterKind
    staging: Staging = Staging.NONE

    @property
    def addressing(self) -> Addressing:
        return Addressing.MAPPED

    @property
    def refusal(self) -> str | None:
        """Why this combination cannot exist on any machine, or None when it is legal."""
        return _REFUSALS.get((self.link, self.submitter))

    def __str__(self) -> str:
        return "/".join(field.value for field in self)


_REFUSALS: dict[tuple[LinkKind, SubmitterKind], str] = {
    (LinkKind.LOOPBACK, SubmitterKind.HOST): "loopback has no streams: its caller copies",
}

# What each preset permits, best first.
PRESETS: dict[str, tuple[Path, ...]] = {
    "auto": (
        Path(LinkKind.LOOPBACK, SubmitterKind.INLINE),
        Path(LinkKind.FABRIC, SubmitterKind.HOST),
    ),
    "ubshmem": (Path(LinkKind.FABRIC, SubmitterKind.HOST),),
}


def parse(wanted: str | Path) -> tuple[Path, ...]:
    """The paths that a preset's name, ``link/submitter[/staging]`` or a Path permits, best first.

    Raises UsageError for an unknown name and for a combination that cannot exist.
    """
    if isinstance(wanted, str) and wanted in PRESETS:
        return PRESETS[wanted]
    path = wanted if isinstance(wanted, Path) else _from_text(wanted)
    if path.refusal is not None:
        raise UsageError(f"path {path} cannot exist: {path.refusal}", cause="path")
    return (path,)


def _from_text(text: str) -> Path:
    words = text.split("/")
    if not 2 <= len(words) <= 3:
        raise UsageError(
            f"unknown path {text!r}: give one of {', '.join(PRESETS)} or link/submitter/staging",
            cause="path",
        )
    link, submitter, *staging = words
    return Path(
        _member(LinkKind, link, text),
        _member(SubmitterKind, submitter, text),
        _member(Staging, staging[0], text) if staging else Staging.NONE,
    )


def _member(kind: type[E], word: str, text: str) -> E:
    try:
        return kind(word)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise UsageError(
            f"unknown {kind.__name__} {word!r} in path {text!r}: know {known}", cause="path"
        ) from None
