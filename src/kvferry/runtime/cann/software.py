"""Other programs on the software NPU: where it lies, and how they are told to use it.

npu/  libascendcl.so                       the library itself
      libacl_rt.so, libacl_rt_impl.so      nothing but names that load it
      acl/acl.h                            to compile against
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

from ...errors import Unsupported, UsageError
from .library import NAMES

__all__ = ["SETTINGS", "check", "environment", "find"]

# What a program may be told -> the variable that the library reads at aclInit.
SETTINGS = {
    "profile": "NPU_PROFILE",
    "devices": "NPU_DEVICES",
    "capacity": "NPU_CAPACITY",
    "fragment": "NPU_FRAGMENT",
    "page": "NPU_PAGE",
    "server_id": "NPU_SERVER_ID",
    "hdk": "NPU_HDK",
    "delay": "NPU_DELAY",
    "fail": "NPU_FAIL",
    "quiet": "NPU_QUIET",
}

FOLDER = Path(__file__).parents[2] / "npu"
SEARCHED = "LD_LIBRARY_PATH"


def find(folder: Path = FOLDER) -> Path:
    """The folder of the software NPU. Raises Unsupported when it was not built."""
    lacking = [name for name in NAMES if not (folder / name).exists()]
    if lacking:
        raise Unsupported(
            f"the software NPU was not built: no {', '.join(lacking)} in {folder}; "
            "install kvferry again with a C compiler at hand",
            cause="no_library",
        )
    return folder


def environment(
    folder: Path, settings: Mapping[str, str], inherited: Mapping[str, str]
) -> dict[str, str]:
    """The variables that make a program find the library in `folder` before any other, with
    `settings`, by the names of SETTINGS."""
    searched = [str(folder), inherited.get(SEARCHED, "")]
    return {
        SEARCHED: ":".join(filter(None, searched)),
        **{SETTINGS[name]: value for name, value in settings.items()},
    }


def check(folder: Path, environ: Mapping[str, str]) -> None:
    """Have the library read the environment of this process, which `environ` must be.

    Raises UsageError for a variable that aclInit would not understand.
    """
    library = ctypes.CDLL(str(folder / NAMES[0]))
    library.npu_wrong_setting.restype = ctypes.c_char_p
    wrong: bytes | None = library.npu_wrong_setting()
    if wrong is None:
        return
    variable = wrong.decode()
    raise UsageError(
        f"the software NPU does not understand {variable}={environ.get(variable, '')}",
        cause="bad_setting",
    )
