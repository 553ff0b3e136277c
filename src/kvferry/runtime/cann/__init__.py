"""CANN's ACL functions through ctypes: found at run time, never linked, never needed.

Importing this loads no library; `open_library` does, and raises Unsupported where there is none.
What a call may pass stands in `enums` and `structs`, what it may answer in `codes`.
`tools/check_acl.py` compares all of it with the vendor's headers.
"""

from .codes import Code, translate
from .functions import Capability
from .ipc import CannIpcRuntime
from .library import Library, open_library
from .runtime import CannRuntime
from .stream import CannStreams

__all__ = [
    "CannIpcRuntime",
    "CannRuntime",
    "CannStreams",
    "Capability",
    "Code",
    "Library",
    "open_library",
    "translate",
]
