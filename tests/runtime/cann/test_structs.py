"""Layouts of records, and names that lead to values."""

from __future__ import annotations

import ctypes

import pytest

from kvferry.runtime.cann.codes import Code
from kvferry.runtime.cann.enums import PREFIXES
from kvferry.runtime.cann.functions import FUNCTIONS, TYPES, Capability
from kvferry.runtime.cann.structs import STRUCTS, MemLocation, PhysicalMemProp

SIZES = {
    "MemLocation": 8,
    "PhysicalMemProp": 32,
    "MemAccessDesc": 24,
    "PtrAttributes": 28,
    "MemcpyBatchAttr": 32,
    "MemFabricHandle": 128,
}


def test_sizes() -> None:
    assert {record.__name__: ctypes.sizeof(record) for record in STRUCTS} == SIZES


def test_offsets_that_are_easily_got_wrong() -> None:
    assert (MemLocation.id.offset, MemLocation.type.offset) == (0, 4)
    assert (PhysicalMemProp.location.offset, PhysicalMemProp.reserve.offset) == (12, 24)


def test_reserved_bytes_begin_as_0() -> None:
    assert all(bytes(record()) == bytes(ctypes.sizeof(record)) for record in STRUCTS)


def test_no_two_members_share_a_name_in_c() -> None:
    names = [f"{prefix}{name}" for kind, prefix in PREFIXES.items() for name in kind.__members__]
    names += [f"ACL_ERROR_{code.name}" for code in Code]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", [*PREFIXES, Code], ids=lambda kind: kind.__name__)
def test_no_two_members_share_a_value(kind: type[Code]) -> None:
    assert len(set(kind.__members__.values())) == len(kind.__members__)


def test_every_function_has_known_types_and_every_capability_functions() -> None:
    used = {name for each in FUNCTIONS.values() for name in (*each.arguments, each.result)}
    assert used == set(TYPES)
    assert {each.capability for each in FUNCTIONS.values()} == set(Capability)
