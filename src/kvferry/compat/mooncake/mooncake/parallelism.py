"""Which part of a tensor something is: what callers say, checked, and the keys that parts have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

__all__ = [
    "AXES",
    "KINDS",
    "RANKS",
    "Axis",
    "Mode",
    "ParallelAxis",
    "ReadTarget",
    "TensorParallelism",
    "axes_of",
    "cut_of",
    "mode_of",
    "partition_of",
    "shard_key",
    "tp",
    "with_cut",
    "writer_key",
]

LIMIT = 1 << 31
AXES = 4
# More ranks than any machine has: parts are as many keys.
RANKS = 1 << 16


@dataclass(slots=True)
class ParallelAxis:
    """One way in which tensors are divided among processes, and the place of one process in it.

    kind       "tp" cuts the tensor along `split_dim`; "dp" (replicas), "ep" (`expert_id`) and "pp"
               (`stage_id`) name whose tensor it is
    rank       below `size`
    """

    kind: str = ""
    rank: int = 0
    size: int = 1
    split_dim: int | None = None
    expert_id: int | None = None
    stage_id: int | None = None


@dataclass(slots=True)
class TensorParallelism:
    """One to four axes of different kinds."""

    axes: list[ParallelAxis] = field(default_factory=list)


class Mode(Enum):
    """What a reader wants of a key."""

    AS_STORED = "as_stored"
    SHARD = "shard"
    FULL = "full"


class ReadTarget:
    """`mode` "as_stored", "shard" (the one that `parallelism` names) or "full"."""

    __slots__ = ("_mode", "parallelism")

    def __init__(
        self, mode: str = "as_stored", parallelism: TensorParallelism | None = None
    ) -> None:
        self.mode = mode
        self.parallelism = parallelism

    @property
    def mode(self) -> str:
        return self._mode.value

    @mode.setter
    def mode(self, mode: str) -> None:
        """Raises RuntimeError for another word."""
        try:
            self._mode = Mode(mode.lower())
        except ValueError:
            raise RuntimeError(f"Unsupported ReadTarget mode {mode!r}") from None


class Kind(NamedTuple):
    """`owner` is the attribute that says whose tensor it is."""

    name: str
    owner: str | None = None
    mark: str = ""


# In the order in which keys name them, which is that of their codes.
KINDS = (Kind("dp"), Kind("tp"), Kind("ep", "expert_id", "eid"), Kind("pp", "stage_id", "sid"))
_CODES = {kind.name: code for code, kind in enumerate(KINDS)}
TP = _CODES["tp"]


class Axis(NamedTuple):
    """A checked axis; `kind` is a place in KINDS, `owner` an expert or a stage."""

    kind: int
    rank: int
    size: int
    split_dim: int | None = None
    owner: int | None = None

    @property
    def cuts(self) -> bool:
        return self.kind == TP

    @property
    def mark(self) -> str:
        """The axis in a key."""
        kind = KINDS[self.kind]
        cut = "" if self.split_dim is None else f"_sd{self.split_dim}"
        owner = "" if self.owner is None else f"_{kind.mark}{self.owner}"
        return f"__{kind.name}_{self.rank}of{self.size}{cut}{owner}"


def tp(rank: Any, size: Any, split_dim: Any) -> Axis:
    """The axis that cuts, of what a caller says. Raises ValueError for what is no place in it."""
    numbers = (rank, size, split_dim)
    if not all(isinstance(number, int) and 0 <= number < LIMIT for number in numbers):
        raise ValueError(f"{numbers} are no rank, size and split_dim")
    if rank >= size or size > RANKS:
        raise ValueError(f"rank {rank} of {size}")
    return Axis(TP, rank, size, split_dim)


def axes_of(parallelism: object) -> tuple[Axis, ...]:
    """Of a TensorParallelism, or of anything with its attributes. Raises ValueError."""
    said = getattr(parallelism, "axes", None)
    if not isinstance(said, Sequence):
        raise ValueError(f"{parallelism!r} has no axes")
    axes = tuple(_axis_of(axis) for axis in said)
    if not 0 < len(axes) <= AXES or len({axis.kind for axis in axes}) < len(axes):
        raise ValueError(f"one to {AXES} axes of different kinds, not {len(axes)}: {said!r}")
    return axes


def _axis_of(said: Any) -> Axis:
    name = str(getattr(said, "kind", "")).lower()
    if name not in _CODES:
        raise ValueError(f"{name!r} is no kind of axis")
    rank, size, cut = (getattr(said, what, None) for what in ("rank", "size", "split_dim"))
    if name == "tp":
        return tp(rank, size, cut)
    if cut is not None:
        raise ValueError(f"a {name} axis has no split_dim")
    place = tp(rank, size, 0)
    return Axis(_CODES[name], place.rank, place.size, None, _owner_of(said, _CODES[name]))


def _owner_of(said: object, code: int) -> int | None:
    name = KINDS[code].owner
    if name is None:
        return None
    owner = getattr(said, name, None)
    if not isinstance(owner, int) or not 0 <= owner < LIMIT:
        raise ValueError(f"a {KINDS[code].name} axis needs {name}")
    return owner


def partition_of(writer: object) -> Axis:
    """The part of a whole tensor to store, of anything with rank, size and split_dim. Raises
    ValueError."""
    rank, size, cut = (getattr(writer, what, None) for what in ("rank", "size", "split_dim"))
    return tp(rank, size, cut)


def cut_of(axes: tuple[Axis, ...]) -> Axis | None:
    """The one that cuts."""
    return next((axis for axis in axes if axis.cuts), None)


def with_cut(axes: tuple[Axis, ...], cut: Axis) -> tuple[Axis, ...]:
    """The same with this one in the place of the one that cuts."""
    return tuple(cut if axis.cuts else axis for axis in axes)


def mode_of(target: object) -> tuple[Mode, tuple[Axis, ...] | None]:
    """What a reader wants; None wants what is stored. Raises ValueError."""
    if target is None:
        return Mode.AS_STORED, None
    if not (hasattr(target, "mode") and hasattr(target, "parallelism")):
        raise ValueError(f"{target!r} has no mode and parallelism")
    mode = Mode(str(target.mode).lower())
    return mode, None if target.parallelism is None else axes_of(target.parallelism)


def shard_key(key: str, axes: tuple[Axis, ...]) -> str:
    """Of the part that `axes` name. Cut alone, it is named by its rank alone."""
    if len(axes) == 1 and axes[0].cuts:
        return f"{key}_tp_{axes[0].rank}"
    return key + "".join(axis.mark for axis in sorted(axes))


def writer_key(key: str, axis: Axis) -> str:
    """Of a part that was cut from a whole tensor for its writer."""
    return f"{key}__writer_{axis.rank}of{axis.size}_sd{axis.split_dim}"
