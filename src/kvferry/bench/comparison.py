"""What a comparison of paths found, and its JSON."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Comparison", "Cpu", "Grant", "KeyRow", "Recovery", "Refused", "VariantRow"]


class Cpu(msgspec.Struct, frozen=True):
    """Seconds of processor time by who used it, for each 10^9 bytes moved.

    caller       the thread that submitted
    engines      copy engines, while they copy
    coprocessor  copy engines, while they unfold batches
    target       all of the target process
    other        all other threads of the initiator
    """

    caller: float
    engines: float
    coprocessor: float
    target: float
    other: float


class Grant(msgspec.Struct, frozen=True):
    """What an allocation asked for and obtained, in bytes; `huge` of them in huge pages."""

    asked: int
    granted: int
    huge: int


class Recovery(msgspec.Struct, frozen=True):
    """After the target was killed and another started on its port.

    back_ms    from the kill until a transfer over the same path had succeeded
    start_ms   of that until the new target had its memory: no path can be faster
    attempts   to connect
    verified   every byte of another transfer was where it belongs
    """

    back_ms: float
    start_ms: float
    attempts: int
    verified: bool


class VariantRow(msgspec.Struct, frozen=True):
    """A variant that this machine has.

    p50_us, p99_us           of a write of one block of 4 KiB
    write_gbps, read_gbps    median of 128 blocks of 1 MiB, fewer in a small side
    cpu                      over these passes
    connect_ms               median of a few
    allocate_ms, grant       an own region, register_ms: a buffer of the same size
    submissions              of these passes
    staged_bytes             of these passes, and of those that moved keys
    verified                 every byte of one more write and one more read
    """

    variant: str
    varies: str
    path: str
    streams: int
    p50_us: float
    p99_us: float
    write_gbps: float
    read_gbps: float
    cpu: Cpu
    connect_ms: float
    allocate_ms: float
    register_ms: float
    grant: Grant
    recovery: Recovery
    staged_bytes: int
    submissions: dict[str, int]
    verified: bool


class Refused(msgspec.Struct, frozen=True):
    """A variant that this machine has not got."""

    variant: str
    varies: str
    reason: str


class KeyRow(msgspec.Struct, frozen=True):
    """Milliseconds, median, to write so many keys in one call; by variant."""

    keys: int
    ms: dict[str, float]


class Comparison(msgspec.Struct, frozen=True):
    """A whole comparison.

    settings  size: bytes a side; seconds: of measuring, a variant; layout: whose slots are keys;
              key_bytes, slots: of a side
    unverified_keys  variants that left a wrong byte when they moved the most keys
    """

    machine: dict[str, Any]
    settings: dict[str, Any]
    variants: list[VariantRow]
    refused: list[Refused]
    keys: list[KeyRow]
    unverified_keys: list[str]

    @property
    def verified(self) -> bool:
        return not self.unverified_keys and all(
            row.verified and row.recovery.verified for row in self.variants
        )
