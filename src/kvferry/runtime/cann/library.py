"""Finds ACL at run time and calls it.

Once opened, a library is never closed: it keeps threads and handlers of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from ...errors import Unsupported
from .codes import translate
from .functions import FUNCTIONS, TYPES, Capability, Function

__all__ = ["NAMES", "Library", "open_library"]

# Which of them holds a function depends on the release; the classic name first.
NAMES = ("libascendcl.so", "libacl_rt.so", "libacl_rt_impl.so")

SOFTWARE_NPU = "npu_books"  # a function that it alone has

REMEDY = "source CANN's set_env.sh before the start, or set KVFERRY_ACL_LIBRARY to the library"

Call = Callable[..., Any]


class Library:
    """The ACL functions of this process. Thread-safe; which device and context is current is a
    matter of the calling thread.

    opened   the libraries that functions were looked for in
    refused  those that did not open, with the reason
    missing  capabilities that cannot be had, with the functions that they lack
    software whether it is the software NPU, of which nothing may be said of Ascend
    """

    def __init__(self, opened: dict[str, ctypes.CDLL], refused: dict[str, str]) -> None:
        self.opened = tuple(opened)
        self.refused = refused
        found = {name: _find(each, opened.values()) for name, each in FUNCTIONS.items()}
        self._calls = {name: call for name, call in found.items() if call is not None}
        self.software = any(hasattr(library, SOFTWARE_NPU) for library in opened.values())
        self.missing = _missing(FUNCTIONS.keys() - self._calls.keys())

    def has(self, capability: Capability) -> bool:
        """Whether every function it needs is there. What a device can do, only a call tells."""
        return capability not in self.missing

    def require(self, capability: Capability) -> None:
        """Raise Unsupported, naming what lacks, unless `capability` can be had."""
        if capability in self.missing:
            lacking = ", ".join(self.missing[capability])
            raise Unsupported(
                f"no {capability.value}: {' and '.join(self.opened)} without {lacking}",
                cause="no_function",
            )

    def function(self, name: str) -> Call:
        """The function itself, for loops: returns its code, which `check` takes.

        Raises Unsupported when its capability is missing, be it for another function.
        """
        self.require(FUNCTIONS[name].capability)
        return self._calls[name]

    def check(self, name: str, code: int) -> None:
        """Raise what `code`, just returned by `name` in this thread, means; nothing for 0."""
        if code:
            raise translate(name, code, self._text("aclGetRecentErrMsg"))

    def call(self, name: str, *arguments: object, allow: Collection[int] = ()) -> int:
        """Call a function that returns a code. Blocks as long as it does, without the GIL.

        Returns 0, or a code that `allow` holds. Any other code raises the error of kvferry that it
        means, whose `code` and `detail` are the vendor's number and words; see codes.MEANINGS.
        """
        code: int = self.function(name)(*arguments)
        if code not in allow:
            self.check(name, code)
        return code

    def make(
        self, undo: ExitStack, end: Callable[[int], object], name: str, *arguments: object
    ) -> int:
        """The pointer that `name` leaves where its first argument points, for `end` when `undo` is
        left: also when a signal handler raises right behind the call."""
        place = ctypes.c_void_p()

        def unmake() -> None:
            if place.value:
                end(place.value)

        undo.callback(unmake)
        self.call(name, ctypes.byref(place), *arguments)
        return place.value or 0

    def version(self) -> tuple[int, int, int]:
        """Of the ACL interface: major, minor, patch."""
        numbers = [ctypes.c_int32() for _ in range(3)]
        self.call("aclrtGetVersion", *map(ctypes.byref, numbers))
        major, minor, patch = (number.value for number in numbers)
        return major, minor, patch

    def soc(self) -> str | None:
        """What the library says it drives, such as Ascend910; None when it does not know."""
        return self._text("aclrtGetSocName")

    def _text(self, name: str) -> str | None:
        text = self.function(name)()
        return None if text is None else text.decode(errors="replace")


def open_library(only: str | None = None) -> Library:
    """Open ACL: the library `only`, a path or a name, or all of NAMES that can be opened.

    Raises Unsupported, with each library that was tried and why it failed, when none opens or what
    opens lacks the core functions.
    """
    opened, refused = _open((only,) if only else NAMES)
    if not opened:
        raise Unsupported(f"no ACL library: {_reasons(refused)}; {REMEDY}", cause="no_library")
    library = Library(opened, refused)
    if not library.has(Capability.CORE):
        lacking = ", ".join(library.missing[Capability.CORE])
        refused = dict.fromkeys(opened, f"lacks {lacking}") | refused
        raise Unsupported(f"no ACL library: {_reasons(refused)}; {REMEDY}", cause="no_library")
    return library


def _open(names: Iterable[str]) -> tuple[dict[str, ctypes.CDLL], dict[str, str]]:
    opened: dict[str, ctypes.CDLL] = {}
    refused: dict[str, str] = {}
    for name in names:
        try:
            opened[name] = ctypes.CDLL(name)
        except OSError as error:
            refused[name] = str(error)
    return opened, refused


def _reasons(refused: dict[str, str]) -> str:
    """The loader's own words begin with the name, mostly."""
    return "; ".join(
        why if why.startswith(name) else f"{name}: {why}" for name, why in refused.items()
    )


def _find(function: Function, libraries: Iterable[ctypes.CDLL]) -> Call | None:
    for library in libraries:
        try:
            call = library[function.name]
        except AttributeError:
            continue
        call.argtypes = [TYPES[name] for name in function.arguments]
        call.restype = TYPES[function.result]
        return call
    return None


def _missing(names: Collection[str]) -> dict[Capability, Sequence[str]]:
    """Capability -> the functions of it among `names`, in the order of the table."""
    missing: dict[Capability, list[str]] = {}
    for function in FUNCTIONS.values():
        if function.name in names:
            missing.setdefault(function.capability, []).append(function.name)
    return {capability: tuple(lacking) for capability, lacking in missing.items()}
