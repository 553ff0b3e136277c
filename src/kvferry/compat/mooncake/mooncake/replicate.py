"""What a caller wants of the objects it puts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

__all__ = ["ObjectDataType", "ReplicateConfig", "SoftPinAction"]


class ObjectDataType(IntEnum):
    """What an object holds. Nothing here depends on it."""

    UNKNOWN = 0
    KVCACHE = 1
    TENSOR = 2
    WEIGHT = 3
    SAMPLE = 4
    ACTIVATION = 5
    GRADIENT = 6
    OPTIMIZER_STATE = 7
    METADATA = 8
    GENERAL = 9


class SoftPinAction(IntEnum):
    """PRESERVE: as it was; ENABLE: leaves only when nothing else could; DISABLE: as any other."""

    PRESERVE = 0
    ENABLE = 1
    DISABLE = 2


@dataclass(slots=True)
class ReplicateConfig:
    """How objects are kept.

    replica_num         nodes that should have each, 4 at most
    soft_pin_action     see SoftPinAction, with soft_pin_ttl_ms of ENABLE
    with_hard_pin       it never leaves by itself
    preferred_segments  names of segments to put to first; preferred_segment: of one
    group_ids           one for each key: objects of one group leave together
    prefer_alloc_in_same_node
                        the pieces of a value stay together, as they always do

    The others are of tiers that are not here: a number above 0 is refused.
    """

    replica_num: int = 1
    nof_replica_num: int = 0
    dfs_replica_num: int = 0
    soft_pin_action: SoftPinAction = SoftPinAction.PRESERVE
    soft_pin_ttl_ms: int | None = None
    with_hard_pin: bool = False
    preferred_segment: str = ""
    preferred_segments: list[str] = field(default_factory=list)
    preferred_nof_segments: list[str] = field(default_factory=list)
    prefer_alloc_in_same_node: bool = False
    data_type: ObjectDataType = ObjectDataType.UNKNOWN
    group_ids: list[str] | None = None
