"""Tensors of torch_npu in memory that an engine can register as it is, and its peers can map.

A library of C, which torch_npu itself loads, allocates each block as device memory whose handle can
be retained from its address (allocator.h). It looks for ACL at its first use, where runtime "cann"
does; KVFERRY_ACL_LIBRARY names another library.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from ...errors import Unsupported

__all__ = ["allocator", "library_path"]

LIBRARY = Path(__file__).with_name("libkvferry_torch_npu.so")


def library_path() -> Path:
    """The library with kvferry_malloc, kvferry_free, kvferry_probe and kvferry_last_error, and the
    first three under the names mc_allocator_malloc, mc_allocator_free and mc_allocator_probe.

    allocator.h beside it tells what they do. Loads nothing. Raises Unsupported when kvferry was
    installed without it.
    """
    if not LIBRARY.exists():
        raise Unsupported(f"no {LIBRARY}: kvferry was not built here", cause="no_library")
    return LIBRARY


def allocator() -> Any:
    """A torch_npu.npu.memory.NPUPluggableAllocator over the library: for change_current_allocator
    before torch_npu has allocated anything, or for a MemPool.

    Imports torch_npu, and blocks as long as that takes; allocates nothing yet. Raises Unsupported
    when there is no torch_npu, or none that can be imported, with its reason.
    """
    path = library_path()
    try:
        memory = importlib.import_module("torch_npu.npu.memory")
    except (ImportError, OSError) as error:
        raise Unsupported(f"no torch_npu: {error}", cause="no_torch_npu") from error
    return memory.NPUPluggableAllocator(str(path), "kvferry_malloc", "kvferry_free")
