"""Copies without any of it: what this machine allows. A part of the contract of core."""

from typing_extensions import Buffer

from .memory import Descriptors
from .transfers import AclCalls

# copy

def copy_variants() -> list[str]: ...
def nt_variant() -> str: ...
def copy(variant: str, to: int, source: int, length: int) -> None: ...
def copy_bare(to: int, source: int, length: int) -> None: ...
def copy_blocks(
    variant: str, to: int, to_ids: Buffer, source: int, source_ids: Buffer, block: int
) -> None:
    """Block source_ids[i] to block to_ids[i] for all i (int64), without the GIL; unchecked."""

def process_blocks(
    pid: int,
    to: int,
    to_ids: Buffer,
    source: int,
    source_ids: Buffer,
    block: int,
    batch: int,
    write: bool,
) -> int:
    """The same to (`write`) or from process `pid`, with at most 1,024 blocks, 1 MiB and `batch`
    blocks a call, one at least. 0 or an errno. `block` and `batch` are positive; unchecked."""

# the limit of sockets: bare loops over a connected, blocking stream socket. They return 0 or an
# errno, hold no GIL, and do not check their addresses.

def socket_send_blocks(fd: int, source: int, ids: Buffer, block: int, batch: int) -> int:
    """Send blocks ids[i] (int64) one after the other; wait for an answer after every `batch`."""

def socket_receive_blocks(fd: int, to: int, ids: Buffer, block: int, batch: int) -> int:
    """Receive into blocks ids[i] (int64); answer with one byte after every `batch`."""

def socket_round_trips(fd: int, source: int, length: int, taken: Buffer) -> int:
    """Fill `taken` (uint64) with nanoseconds from `length` bytes sent to one byte received."""

def socket_echo(fd: int, to: int, length: int, n: int) -> int:
    """The other end of `n` round trips: receive `length` bytes, answer with one."""

# the limit of ACL's streams: functions that return at once

def acl_instant() -> AclCalls:
    """They move nothing but copies of eight bytes, which set a stream's flag, and never fail."""

def acl_submit(calls: AclCalls, d: Descriptors, streams: int, times: int) -> int:
    """Nanoseconds of a bare loop without the GIL: `times` over a copy for each of `d` and a flag
    for each of so many streams. Of `calls` that move nothing: addresses are not checked."""
