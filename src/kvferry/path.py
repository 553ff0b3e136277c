"""What route bytes take, as one value: link, submitter, staging.

A path says what is permitted; a report counts what happened.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeVar

from .errors import UsageError

E = TypeVar("E", bound=Enum)

__all__ = ["PRESETS", "Addressing", "LinkKind", "Path", "Staging", "SubmitterKind", "parse", "want"]


class Addressing(str, Enum):
    """How remote memory is named.

    Mapped: it lies in this process's address space, too. Registered: by the address its owner has
    it at, and whoever carries the bytes knows the way.
    """

    MAPPED = "mapped"
    REGISTERED = "registered"


class LinkKind(str, Enum):
    """How the bytes cross.

    loopback  the engine is its own peer
    fabric    memory that both processes map
    cma       the kernel copies between two processes (cross memory attach)
    tcp       sockets
    hixl      the vendor's engine, by its Python module
    """

    LOOPBACK = "loopback"
    FABRIC = "fabric"
    CMA = "cma"
    TCP = "tcp"
    HIXL = "hixl"


class SubmitterKind(str, Enum):
    """Who puts the copies in motion."""

    INLINE = "inline"
    HOST = "host"
    COPROCESSOR = "coprocessor"


class Staging(str, Enum):
    """Whether bytes pass through a registered pool on their way."""

    NONE = "none"
    BOUNCE = "bounce"


class Path(NamedTuple):
    """One route. Compares and prints as ``link/submitter/staging``."""

    link: LinkKind
    submitter: SubmitterKind
    staging: Staging = Staging.NONE

    @property
    def addressing(self) -> Addressing:
        return _ADDRESSING[self.link]

    @property
    def sees_registered(self) -> bool:
        """Does it reach memory that the peer merely registered?"""
        return self.link is not LinkKind.FABRIC

    @property
    def refusal(self) -> str | None:
        """Why this combination cannot exist on any machine, or None when it is legal."""
        return _REFUSALS.get((self.link, self.submitter)) or _REFUSALS.get(
            (self.link, self.staging)
        )

    def __str__(self) -> str:
        return "/".join(field.value for field in self)


_ADDRESSING = {
    LinkKind.LOOPBACK: Addressing.MAPPED,
    LinkKind.FABRIC: Addressing.MAPPED,
    LinkKind.CMA: Addressing.REGISTERED,
    LinkKind.TCP: Addressing.REGISTERED,
    LinkKind.HIXL: Addressing.REGISTERED,
}

# The table of all combinations: what is not refused here is legal.
#
#               inline  host  coprocessor  |  none  bounce
#   loopback      x                        |   x
#   fabric        x      x        x        |   x
#   cma           x      x        x        |   x      x (refused at open without device memory)
#   tcp                  x                 |   x      x
#   hixl                 x                 |   x
_REFUSALS: dict[tuple[LinkKind, SubmitterKind | Staging], str] = {
    (LinkKind.LOOPBACK, SubmitterKind.HOST): "loopback has no streams: its caller copies",
    (LinkKind.LOOPBACK, SubmitterKind.COPROCESSOR): "loopback has no streams: its caller copies",
    (LinkKind.TCP, SubmitterKind.INLINE): "tcp submits by itself, which counts as host",
    (LinkKind.TCP, SubmitterKind.COPROCESSOR): "tcp submits by itself: nothing is unfolded",
    (LinkKind.HIXL, SubmitterKind.INLINE): "hixl submits by itself, which counts as host",
    (LinkKind.HIXL, SubmitterKind.COPROCESSOR): "hixl submits by itself, which counts as host",
    (LinkKind.LOOPBACK, Staging.BOUNCE): "mapped memory is copied in place: nothing to stage",
    (LinkKind.FABRIC, Staging.BOUNCE): "mapped memory is copied in place: nothing to stage",
    (LinkKind.HIXL, Staging.BOUNCE): "hixl stages by itself, where it does: BufferPool",
}

_INLINE, _HOST, _COPROCESSOR = SubmitterKind
_LOOPBACK = Path(LinkKind.LOOPBACK, _INLINE)
_FABRIC, _CMA, _TCP, _HIXL = (Path(kind, _HOST) for kind in list(LinkKind)[1:])

# What each preset permits, best first.
PRESETS: dict[str, tuple[Path, ...]] = {
    "auto": (_LOOPBACK, _FABRIC, _CMA, _TCP),
    "rma": (_CMA, _TCP),
    # Where nothing can be staged, the refusal of the staged form says why it goes without.
    "direct": (
        _LOOPBACK._replace(staging=Staging.BOUNCE),
        _LOOPBACK,
        _FABRIC._replace(staging=Staging.BOUNCE),
        _FABRIC,
        _CMA._replace(staging=Staging.BOUNCE),
        _CMA,
        _HIXL._replace(staging=Staging.BOUNCE),
        _HIXL,
        _TCP._replace(staging=Staging.BOUNCE),
    ),
    "ubshmem": (_FABRIC,),
    "fabricmem": (_FABRIC._replace(submitter=_COPROCESSOR), _FABRIC),
}


def parse(wanted: str | Path) -> tuple[Path, ...]:
    """The paths that a preset's name, ``link/submitter[/staging]`` or a Path permits, best first.

    Raises UsageError for an unknown name and for a combination that cannot exist.
    """
    if isinstance(wanted, str) and wanted in PRESETS:
        return PRESETS[wanted]
    path = wanted if isinstance(wanted, Path) else _from_text(wanted)
    if path.refusal is not None:
        raise _impossible(path)
    return (path,)


def want(
    path: str | Path,
    link: str | None = None,
    submitter: str | None = None,
    staging: str | None = None,
) -> tuple[Path, ...]:
    """What `path` permits with some of its fields forced, best first.

    A forced link selects among a preset's paths; a forced submitter or staging replaces theirs.
    Raises UsageError when a forced field contradicts the path, naming both, and when nothing legal
    is left.
    """
    permitted = parse(path)
    if link is not None:
        kind = _member(LinkKind, link, link)
        permitted = tuple(each for each in permitted if each.link is kind)
        if not permitted:
            raise _contradiction(path, f"link={link!r}")
    if submitter is not None:
        who = _member(SubmitterKind, submitter, submitter)
        if path not in PRESETS and permitted[0].submitter is not who:
            raise _contradiction(path, f"submitter={submitter!r}")
        permitted = tuple(each._replace(submitter=who) for each in permitted)
    if staging is not None:
        how = _member(Staging, staging, staging)
        if path not in PRESETS and permitted[0].staging is not how:
            raise _contradiction(path, f"staging={staging!r}")
        permitted = tuple(each._replace(staging=how) for each in permitted)
    if all(each.refusal for each in permitted):
        raise _impossible(permitted[-1])
    return tuple(dict.fromkeys(permitted))


def _impossible(path: Path) -> UsageError:
    return UsageError(f"path {path} cannot exist: {path.refusal}", cause="path")


def _contradiction(path: str | Path, other: str) -> UsageError:
    return UsageError(
        f"path={str(path)!r} and {other} contradict each other", cause="contradiction"
    )


def _from_text(text: str) -> Path:
    words = text.split("/")
    if not 2 <= len(words) <= 3:
        raise UsageError(
            f"unknown path {text!r}: give one of {', '.join(PRESETS)} or link/submitter[/staging]",
            cause="path",
        )
    link, submitter, *staging = words
    return Path(
        _member(LinkKind, link, text),
        _member(SubmitterKind, submitter, text),
        _member(Staging, staging[0], text) if staging else Staging.NONE,
    )


_NAMES: dict[type[Enum], str] = {
    LinkKind: "link",
    SubmitterKind: "submitter",
    Staging: "staging",
}


def _member(kind: type[E], word: str, text: str) -> E:
    try:
        return kind(word)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise UsageError(
            f"unknown {_NAMES[kind]} {word!r} in path {text!r}: know {known}", cause="path"
        ) from None
