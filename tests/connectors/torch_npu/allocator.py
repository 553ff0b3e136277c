"""The library as torch_npu calls it: by name, through its C signatures."""

from __future__ import annotations

import ctypes
import os
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from typing import Any

from kvferry.connectors.torch_npu import library_path
from tests.npu.acl import LIBRARY

NULL = None


class Allocator:
    """The entry points, on the software NPU unless KVFERRY_ACL_LIBRARY says otherwise."""

    def __init__(self, prefix: str = "kvferry_") -> None:
        os.environ.setdefault("KVFERRY_ACL_LIBRARY", str(LIBRARY))
        library = ctypes.CDLL(str(library_path()))
        self.malloc = _function(library, f"{prefix}malloc", c_void_p, c_size_t, c_int, c_void_p)
        self.free = _function(library, f"{prefix}free", None, c_void_p, c_size_t, c_int, c_void_p)
        self.probe = _function(library, f"{prefix}probe", c_int, c_int)
        self._last_error = _function(library, "kvferry_last_error", c_char_p)

    def reason(self) -> str:
        text: bytes = self._last_error()
        return text.decode()


def _function(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = library[name]
    function.restype, function.argtypes = result, list(arguments)
    return function
