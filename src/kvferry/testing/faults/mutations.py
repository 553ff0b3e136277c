"""What a fault does to one unit of a stream: pure functions from bytes to steps in their place.

A unit is a frame, or a chunk as it was received where there are no frames to be seen. What the
layouts are: rpc/wire.py and _core/frame.h draw them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import get_args

from ...engine import messages
from ...rpc.wire import HEADER_SIZE

__all__ = [
    "HUGE_BODIES",
    "LOADED",
    "MUTATIONS",
    "PICKLE",
    "End",
    "Late",
    "Mutation",
    "Pause",
    "Step",
    "mutate",
]

# A file in the working directory of whoever unpickles PICKLE: open(LOADED, "x").
LOADED = "kvferry-a-pickle-was-loaded"
PICKLE = f"cbuiltins\nopen\n(V{LOADED}\nVx\ntR.".encode()

REQUEST, ANSWER = b"KVFQ", b"KVFA"
PLACES = 32  # where they begin in a request
PLACE = 16

HUGE = (1 << 31, (1 << 32) - 1, 1 << 62, 1 << 63, (1 << 64) - 8, (1 << 64) - 1)

# How MessagePack says that 4 GiB of a bin, str, array, map or ext follow.
GREEDY = tuple(bytes([kind]) + b"\xff\xff\xff\xff" for kind in (0xC6, 0xDB, 0xDD, 0xDF, 0xC9))

# Bodies of messages before the proof that would be far more in memory than they are.
_LINKS = b"\x82\xa4type\xa5proof\xa5facts\x81\xa5links"
_KEYS = b"".join(b"\xa4%04x\x80" % number for number in range(10_000))
HUGE_BODIES = (
    *GREEDY,
    _LINKS + b"\xdf\xff\xff\xff\xff",
    _LINKS + b"\xde\x27\x10" + _KEYS,
    b"\x91" * 60_000,
    b"\x82\xa4type\xa7regions\xa6counts\xdd\xff\xff\xff\xff" + b"\x01" * 60_000,
)


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing is moved this way for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Late:
    """These bytes go behind the next unit."""

    data: bytes


class End(Enum):
    """No more this way; or the end of the connection."""

    HALF = "half"
    BOTH = "both"


Step = bytes | Pause | Late | End
Mutation = Callable[[bytes, Random], list[Step]]


def mutate(name: str, unit: bytes, seed: int) -> list[Step]:
    """The steps that replace `unit`, always the same for the same arguments."""
    return MUTATIONS[name](unit, Random(seed))


# ---- when and whether ----


def delay(unit: bytes, random: Random) -> list[Step]:
    cut = random.randint(0, len(unit))
    return [unit[:cut], Pause(random.uniform(0.001, 0.05)), unit[cut:]]


def drop_unit(unit: bytes, random: Random) -> list[Step]:
    return []


def drop_bytes(unit: bytes, random: Random) -> list[Step]:
    start, stop = _stretch(unit, random)
    return [unit[:start] + unit[stop:]]


def drop_connection(unit: bytes, random: Random) -> list[Step]:
    return [unit[: random.randint(0, len(unit))], End.BOTH]


def half_close(unit: bytes, random: Random) -> list[Step]:
    return [unit[: random.randint(0, len(unit))], End.HALF]


def duplicate(unit: bytes, random: Random) -> list[Step]:
    return [unit, unit]


def duplicate_bytes(unit: bytes, random: Random) -> list[Step]:
    start, stop = _stretch(unit, random)
    return [unit[:stop] + unit[start:]]


def reorder(unit: bytes, random: Random) -> list[Step]:
    return [Late(unit)]


def reorder_bytes(unit: bytes, random: Random) -> list[Step]:
    cut = random.randint(0, len(unit))
    return [unit[cut:] + unit[:cut]]


# ---- other bytes ----


def inject_garbage(unit: bytes, random: Random) -> list[Step]:
    at = random.choice((0, random.randint(0, len(unit)), len(unit)))
    return [unit[:at] + random.randbytes(random.randint(1, 200)) + unit[at:]]


def garbage_in_place(unit: bytes, random: Random) -> list[Step]:
    start, stop = _stretch(unit, random)
    return [unit[:start] + random.randbytes(stop - start) + unit[stop:]]


def flip_bits(unit: bytes, random: Random) -> list[Step]:
    changed = bytearray(unit)
    for _ in range(random.randint(1, 4) if unit else 0):
        changed[random.randrange(min(len(changed), 128))] ^= 1 << random.randrange(8)
    return [bytes(changed)]


def huge_length(unit: bytes, random: Random) -> list[Step]:
    return [_rewritten(unit, _lengths(unit), HUGE, random)]


def huge_inside(unit: bytes, random: Random) -> list[Step]:
    """A whole frame whose body promises more than it has."""
    body = unit[HEADER_SIZE:]
    at = random.randint(0, len(body))
    return [_with_body(unit, body[:at] + random.choice(GREEDY) + body[at:])]


def wrong_tag(unit: bytes, random: Random) -> list[Step]:
    return [_rewritten(unit, _tags(unit), (0, 1, 2, 7, random.getrandbits(64), *HUGE), random)]


def wrong_message(unit: bytes, random: Random) -> list[Step]:
    """The same fields under the name of another message."""
    changed, other = unit, random.choice(_NAMES)
    for name in _NAMES:
        changed = changed.replace(name, other, 1)
    return [_with_body(unit, changed[HEADER_SIZE:])]


def wrong_place(unit: bytes, random: Random) -> list[Step]:
    """A request for memory elsewhere."""
    return [_rewritten(unit, _addresses(unit), (0, 4096, random.getrandbits(47), *HUGE), random)]


def unpickle_me(unit: bytes, random: Random) -> list[Step]:
    return [random.choice((PICKLE, PICKLE + unit, _with_body(unit, PICKLE)))]


MUTATIONS: dict[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (
        delay,
        drop_unit,
        drop_bytes,
        drop_connection,
        half_close,
        duplicate,
        duplicate_bytes,
        reorder,
        reorder_bytes,
        inject_garbage,
        garbage_in_place,
        flip_bits,
        huge_length,
        huge_inside,
        wrong_tag,
        wrong_message,
        wrong_place,
        unpickle_me,
    )
}

# ---- where what stands ----

Field = tuple[int, int]  # offset and bytes


def _lengths(unit: bytes) -> list[Field]:
    if unit.startswith(REQUEST):
        return [(20, 4), (24, 8), *((at + 8, 8) for at in _places(unit))]
    return [(32, 8)] if unit.startswith(ANSWER) else [(0, 4)]


def _tags(unit: bytes) -> list[Field]:
    if unit.startswith(REQUEST):
        return [(0, 4), (4, 4), (8, 8), (16, 4)]
    if unit.startswith(ANSWER):
        return [(0, 4), (4, 4), (8, 8), (16, 4), (20, 4), (24, 8)]
    return [(4, 1), (5, 1), (6, 2), (8, 8)]


def _addresses(unit: bytes) -> list[Field]:
    return [(at, 8) for at in _places(unit)]


def _places(unit: bytes) -> range:
    if not unit.startswith(REQUEST) or len(unit) < PLACES:
        return range(0)
    (pieces,) = struct.unpack_from("<I", unit, 20)
    return range(PLACES, min(PLACES + pieces * PLACE, len(unit) - PLACE + 1), PLACE)


def _rewritten(unit: bytes, fields: list[Field], values: tuple[int, ...], random: Random) -> bytes:
    """One of the fields holds one of the values, cut to its size. Without fields: as it was."""
    there = [(at, size) for at, size in fields if at + size <= len(unit)]
    if not there:
        return unit
    at, size = random.choice(there)
    value = random.choice(values) % (1 << 8 * size)
    return unit[:at] + value.to_bytes(size, "little") + unit[at + size :]


def _with_body(unit: bytes, body: bytes) -> bytes:
    """The frame with another body and the length of that; what is no frame becomes the body."""
    if len(unit) < HEADER_SIZE or unit.startswith((REQUEST, ANSWER)):
        return body
    return len(body).to_bytes(4, "little") + unit[4:HEADER_SIZE] + body


def _stretch(unit: bytes, random: Random) -> tuple[int, int]:
    start, stop = sorted(random.randint(0, len(unit)) for _ in range(2))
    return start, stop


def _names() -> list[bytes]:
    """The tags of all messages as they travel."""
    tags = [str(each.__struct_config__.tag).encode() for each in get_args(messages.Message)]
    return [bytes([0xA0 + len(tag)]) + tag for tag in tags]


_NAMES = _names()
