"""What a caller may say about one channel, checked before anything is dialled."""

from __future__ import annotations

from typing import NamedTuple

from .. import _core, config
from ..errors import UsageError
from ..path import PRESETS, LinkKind, Path, Staging, SubmitterKind, want
from ..submit import LOGICAL_MOST, PoolSpec

__all__ = ["ChannelOptions", "choose"]

DEVICE_STREAMS = 4


class ChannelOptions(NamedTuple):
    """What makes two channels to one peer different.

    wanted   the paths it may take, best first
    streams  a transfer under a host path
    pool     of the staging paths
    """

    wanted: tuple[Path, ...]
    streams: int
    inline_below: int
    max_transfers_per_batch: int
    pool: PoolSpec


def choose(
    options: config.Options,
    path: str | Path,
    *,
    link: str | None = None,
    submitter: str | None = None,
    staging: str | None = None,
    streams: int | None = None,
    inline_below: int | None = None,
    max_transfers_per_batch: int | None = None,
    bounce: str | None = None,
) -> ChannelOptions:
    """Settle what Engine.connect was told. Raises UsageError, naming the two options that
    contradict each other, or the range that a number is out of."""
    spec = options.bounce if bounce is None else bounce
    pool = PoolSpec.parse(spec)
    in_streams = _within("streams", streams, _streams(options), 1, _core.STREAMS_MAX)
    wanted = want(path, link, submitter, staging)
    if pool.count == 0:
        if path not in PRESETS and wanted[0].staging is Staging.BOUNCE:
            raise _contradiction(f"path={str(path)!r}", f"bounce={spec!r}")
        if staging is not None and Staging(staging) is Staging.BOUNCE:
            raise _contradiction(f"staging={staging!r}", f"bounce={spec!r}")
        wanted = tuple(dict.fromkeys(each._replace(staging=Staging.NONE) for each in wanted))
    elif bounce is not None and staging is None:
        wanted = _stage_where_possible(wanted, bounce)
    if streams is not None and in_streams > 1 and _only(wanted, SubmitterKind.COPROCESSOR):
        raise _contradiction(f"streams={streams}", "submitter='coprocessor', whose slot is one")
    return ChannelOptions(
        wanted,
        in_streams,
        _within("inline_below", inline_below, options.inline_below, 0, 1 << 62),
        _within("max_transfers_per_batch", max_transfers_per_batch, LOGICAL_MOST, 1, LOGICAL_MOST),
        pool,
    )


def _stage_where_possible(wanted: tuple[Path, ...], bounce: str) -> tuple[Path, ...]:
    """A pool that is asked for by its size is used wherever anything can be staged."""
    staged = [path._replace(staging=Staging.BOUNCE) for path in wanted]
    if all(path.refusal for path in staged):
        raise UsageError(
            f"bounce={bounce!r} and path {wanted[-1]} contradict each other: {staged[-1].refusal}",
            cause="contradiction",
        )
    return tuple(dict.fromkeys(each for path in wanted for each in _staged_first(path)))


def _staged_first(path: Path) -> tuple[Path, ...]:
    """Over cma the staged form is refused where there is no device memory: the plain one does."""
    staged = path._replace(staging=Staging.BOUNCE)
    if staged.refusal:
        return (path,)
    return (staged, path) if path.link is LinkKind.CMA else (staged,)


def _only(wanted: tuple[Path, ...], submitter: SubmitterKind) -> bool:
    return all(path.submitter is submitter for path in wanted)


def _streams(options: config.Options) -> int:
    """A transfer by default: as many as can copy at once, or as serve a device well."""
    if options.runtime != "host":
        return DEVICE_STREAMS
    return min(options.copy_engines, _core.STREAMS_MAX)


def _within(name: str, value: int | None, default: int, low: int, high: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or not low <= value <= high:
        raise UsageError(f"{name} is {value!r}, not from {low} to {high}", cause=name)
    return value


def _contradiction(one: str, other: str) -> UsageError:
    return UsageError(f"{one} and {other} contradict each other", cause="contradiction")
