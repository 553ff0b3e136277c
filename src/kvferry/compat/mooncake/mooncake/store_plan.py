"""What a ReplicateConfig comes to: where objects go, and how they are kept once they are there."""

from __future__ import annotations

import logging
import re
import time
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any

from kvferry.errors import Unsupported, UsageError
from kvferry.store import Answer, Pin

from .replicate import ReplicateConfig, SoftPinAction

__all__ = ["PLAIN", "Keeping", "check", "each_of", "going"]

logger = logging.getLogger("mooncake")

PLAIN = ReplicateConfig()  # nothing in particular; nobody changes it

MOST_REPLICAS = 4
SOFT_PIN_MS = 1_800_000
LONGEST_SOFT_PIN_MS = 86_400_000
_SEGMENT = re.compile(r".+:[0-9]{1,5}")  # others are names of nobody here
GROUPS = 1 << 16  # whose members are remembered


def check(config: ReplicateConfig, keys: int, *, gathered: bool = False) -> None:
    """Raises UsageError for what makes no sense for so many keys, Unsupported for tiers that are
    not here, TypeError for what is no config.

    gathered  values are put together from pieces, which is where prefer_alloc_in_same_node belongs
    """
    if not isinstance(config, ReplicateConfig):
        raise TypeError(f"config is a ReplicateConfig, not {config!r}")
    if config.nof_replica_num > 0 or config.dfs_replica_num > 0:
        raise Unsupported("there are no NoF and no DFS replicas", cause="replica_kind")
    if config.replica_num < 1:
        raise UsageError(f"{config.replica_num} replicas", cause="replicas")
    if config.prefer_alloc_in_same_node and not gathered:
        raise UsageError("prefer_alloc_in_same_node is of values in pieces", cause="same_node")
    if config.group_ids is not None and len(config.group_ids) != keys:
        raise UsageError(f"{len(config.group_ids)} groups of {keys} keys", cause="lengths")
    ttl = config.soft_pin_ttl_ms
    if ttl is None:
        return
    if config.soft_pin_action != SoftPinAction.ENABLE or not 0 <= ttl <= LONGEST_SOFT_PIN_MS:
        raise UsageError(f"a soft pin of {ttl} ms, {config.soft_pin_action!r}", cause="soft_pin")


def going(config: ReplicateConfig, own: str) -> dict[str, Any]:
    """Where objects go, as put_batch takes it.

    own  name of the segment of this process, where they go anyway
    """
    named = [*config.preferred_segments, config.preferred_segment]
    preferred = [name for name in named if _SEGMENT.fullmatch(name)]
    wanted: dict[str, Any] = {}
    if config.replica_num > 1:
        wanted["replicas"] = min(config.replica_num, MOST_REPLICAS)
    if preferred and preferred[0] != own:
        wanted["prefer"] = [f"kv://{name}" for name in preferred]
    return wanted


def each_of(config: ReplicateConfig, at: int) -> ReplicateConfig:
    """What of it is of this key alone."""
    groups = config.group_ids
    return config if groups is None else replace(config, group_ids=groups[at : at + 1])


class Keeping:
    """How objects are kept: pins, the soft ones with an end, and groups by their names.

    A soft pin that is over is ended when the next object is pinned: until then its object leaves
    when nothing else can, as the pin permits.
    """

    def __init__(self) -> None:
        self._ends: list[tuple[float, str | bytes]] = []
        self._groups: OrderedDict[str, str | bytes] = OrderedDict()  # a member of each

    def keep(
        self,
        store: Any,
        keys: Sequence[str | bytes],
        config: ReplicateConfig,
        codes: Sequence[int],
        now: float | None = None,
    ) -> None:
        """What of the keys has been stored. Blocks for a message for each of pins and groups."""
        stored = [at for at, code in enumerate(codes) if code == 0]
        if not stored:
            return
        there = [keys[at] for at in stored]
        if config.with_hard_pin:
            _tell(store.pin(there, Pin.HARD))
        elif config.soft_pin_action == SoftPinAction.ENABLE:
            self._pin(store, there, config, time.monotonic() if now is None else now)
        elif config.soft_pin_action == SoftPinAction.DISABLE:
            store.pin(there, Pin.NONE)
        if config.group_ids is not None:
            self._group(store, there, [config.group_ids[at] for at in stored])

    def _pin(
        self, store: Any, keys: Sequence[str | bytes], config: ReplicateConfig, now: float
    ) -> None:
        over = []
        while self._ends and self._ends[0][0] <= now:
            over.append(heappop(self._ends)[1])
        if over:
            store.pin(over, Pin.NONE)
        store.pin(keys, Pin.SOFT)
        ttl = SOFT_PIN_MS if config.soft_pin_ttl_ms is None else config.soft_pin_ttl_ms
        for key in keys:
            heappush(self._ends, (now + ttl / 1e3, key))

    def _group(self, store: Any, keys: Sequence[str | bytes], names: Sequence[str]) -> None:
        members: dict[str, list[str | bytes]] = defaultdict(list)
        for name, key in zip(names, keys, strict=True):
            if not members[name] and name in self._groups:
                members[name].append(self._groups[name])
            members[name].append(key)
        for name, some in members.items():
            self._groups[name] = some[0]
            self._groups.move_to_end(name)
            store.group(some)
        while len(self._groups) > GROUPS:
            self._groups.popitem(last=False)


def _tell(pinned: Any) -> None:
    """Of those that are elsewhere: by what was asked for, or since there is no room here."""
    if absent := sum(answer != Answer.FOUND for answer in pinned):
        logger.warning(
            "%d of %d objects are not pinned: they are at other nodes", absent, len(pinned)
        )
