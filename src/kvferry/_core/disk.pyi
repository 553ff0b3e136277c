"""Checksums of what lies on a disk, and reading it. A part of the contract of core."""

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

# disk

DISK_OK: int
DISK_CORRUPT: int  # other bytes than were summed up, or not so many
DISK_MISSING: int  # there is no file
DISK_FAILED: int  # the system refused to read

def crc32c(data: Buffer, before: int = 0) -> int:
    """CRC-32C of contiguous bytes that follow others, whose sum is `before`."""

def crc32c_all(addresses: NDArray[np.uint64], lengths: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Of the lengths[i] bytes at addresses[i] each. The caller answers for the addresses.

    As all below: the GIL is released, thread-safe, and ValueError before anything moves when the
    arrays are of different lengths.
    """

def stage(
    run: int,
    start: int,
    room: int,
    ats: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    addresses: NDArray[np.uint64],
) -> NDArray[np.uint32]:
    """Copy the lengths[i] bytes at addresses[i] to run + ats[i]; the CRC-32C of each.

    From byte `start` of the run on and up to `room`, what no value covers becomes zeros. ValueError
    before anything moves unless values are in ascending order, apart, and within these bounds. The
    caller answers for all addresses.
    """

def disk_read(
    fds: NDArray[np.int32],
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    crcs: NDArray[np.uint32],
    addresses: NDArray[np.uint64],
    scratch: int,
    room: int,
) -> NDArray[np.uint8]:
    """Read lengths[i] bytes from offsets[i] of file fds[i] to addresses[i], and compare the sums.

    DISK_OK, DISK_CORRUPT, DISK_MISSING (a descriptor below 0) or DISK_FAILED each; unless it is
    DISK_OK the bytes at the address are any. Blocks. The files may be open with O_DIRECT: only
    whole blocks of 4096 are asked for, through `room` bytes of whole blocks at `scratch`, the
    caller's alone for as long. Records in the order of their offsets share requests. ValueError
    when scratch memory is not of whole blocks, two at least.
    """
