"""Every call of the library that a runtime makes is made to fail: it undoes what it did."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from kvferry.errors import Error
from kvferry.runtime import Access, Place
from kvferry.runtime.cann.addresses import START
from kvferry.runtime.cann.runtime import CannRuntime
from kvferry.testing import Parent
from tests.runtime.cann.npu import (
    EMPTY,
    Recorded,
    Two,
    books,
    held,
    library,
    mapped,
    packed,
    runtime,
    unpacked,
)

CODE = 507899

# What undoes: where one of these fails, something is left.
UNDOING = {
    "aclFinalize",
    "aclrtResetDevice",
    "aclrtDestroyContext",
    "aclrtReleaseMemAddress",
    "aclrtUnmapMem",
    "aclrtFreePhysical",
    "aclrtFree",
    "aclrtIpcMemClose",
    "aclrtGetCurrentContext",
    "aclrtSetCurrentContext",
    # Called before NPU_FAIL is read.
    "aclrtGetDeviceCount",
}


def offer(parent: Parent, ipc: bool) -> None:
    """Memory of both places to whoever wants it, until told to stop."""
    options = {"validate_pids": False}
    with runtime(0, ipc=ipc, options=options) as here, ExitStack() as owners:
        handles = []
        for place in Place:
            memory = owners.enter_context(here.allocate(1, place))
            handles.append(packed(here.export(memory, Access.WRITE)))
        parent.tell(handles)
        parent.hear()


def do_everything(library_: Recorded, ipc: bool, offered: list[Any]) -> None:
    """Leaves nothing, whether it comes to its end or not."""
    with runtime(1, library_=library_, ipc=ipc) as here, ExitStack() as owners:
        for place in Place:
            memory = owners.enter_context(here.allocate(1 << 30, place))
            mapping = owners.enter_context(mapped(here, memory))
            here.export(memory, Access.READ, here.whoami().tgid)
            again = here.retain(mapping.address)
            if again is not None:
                owners.enter_context(again)
        for told in offered:
            memory = owners.enter_context(here.import_handle(unpacked(told)))
            owners.enter_context(mapped(here, memory, Access.READ))
        owners.enter_context(here.reserve(1 << 30, 16 << 40))


def fail_each_in_turn(parent: Parent, ipc: bool, offered: list[Any]) -> list[str]:
    """The calls that failed, and did not matter."""
    noted = Recorded.of(library())
    do_everything(noted, ipc, offered)
    unnoticed = []
    for name, count in sorted(Counter(noted.names).items()):
        for n in range(1, count + 1) if name not in UNDOING else ():
            fails = library(NPU_FAIL=f"{name}:{n}={CODE}")
            code = code_of(Recorded.of(fails), ipc, offered)
            assert code in (None, CODE), (name, n)
            assert books() == EMPTY, (name, n, held())
            if code is None:
                unnoticed.append(f"{name}:{n}")
    return unnoticed


def code_of(*how: Any) -> int | None:
    """With which the whole fails; None: it does not."""
    try:
        do_everything(*how)
    except Error as error:
        return error.code
    return None


@pytest.mark.parametrize("ipc", [False, True])
def test_what_fails_is_undone(two: Two, ipc: bool) -> None:
    owner, user = two
    owner.begin(offer, ipc=ipc)
    user.begin(fail_each_in_turn, ipc=ipc, offered=owner.hear())
    try:
        # Then the library is left to choose the addresses.
        assert user.result() == ["aclrtReserveMemAddressNoUCMemory:1"]
    finally:
        owner.tell("enough")
    assert owner.result() is None


class Struck(Recorded):
    """A signal handler raises right behind call `at` of `name`, as it does after a long one."""

    name: str
    at: int

    def call(self, name: str, *arguments: object, allow: Any = ()) -> int:
        code = super().call(name, *arguments, allow=allow)
        if name == self.name and self.names.count(name) == self.at:
            raise KeyboardInterrupt
        return code


def strike_behind_each(parent: Parent, ipc: bool, offered: list[Any]) -> None:
    noted = Recorded.of(library())
    do_everything(noted, ipc, offered)
    for name, count in sorted(Counter(noted.names).items()):
        for n in range(1, count + 1) if name not in UNDOING | {"aclrtSetDevice"} else ():
            struck = Struck.of(library())
            assert isinstance(struck, Struck)
            struck.name, struck.at = name, n
            with suppress(KeyboardInterrupt):  # behind a call that is refused, there is none
                do_everything(struck, ipc, offered)
            assert books() == EMPTY, (name, n, held())


@pytest.mark.parametrize("ipc", [False, True])
def test_what_is_interrupted_behind_a_call_is_undone(two: Two, ipc: bool) -> None:
    owner, user = two
    owner.begin(offer, ipc=ipc)
    user.begin(strike_behind_each, ipc=ipc, offered=owner.hear())
    try:
        assert user.result() is None
    finally:
        owner.tell("enough")
    assert owner.result() is None


def fail_to_unmap(parent: Parent) -> None:
    """Addresses behind which memory still stands are nobody's any more."""
    here = CannRuntime(library(NPU_FAIL=f"aclrtUnmapMem:1={CODE}"), 0)
    memory = here.allocate(1, Place.DEVICE)
    mapping = mapped(here, memory)
    with pytest.raises(Error) as failed:
        mapping.close()
    assert failed.value.code == CODE
    mapping.close()
    with here.reserve(1) as room:
        assert room.address > mapping.address
    memory.close()
    here.close()
    assert held() == {"reservations": 1, "mappings": 1, "handles": 1, "contexts": 2}
    for name, argument in [
        ("aclrtUnmapMem", mapping.address),
        ("aclrtReleaseMemAddress", START),
        ("aclrtDestroyContext", here.device.context),
        ("aclrtResetDevice", 0),
    ]:
        here.library.call(name, argument)
    assert books() == EMPTY


def test_addresses_that_could_not_be_unmapped_are_not_used_again(two: Two) -> None:
    assert two.user.do(fail_to_unmap) is None
