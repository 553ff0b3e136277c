"""Memory of the CANN runtime between two processes, on the software NPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from kvferry.errors import DeviceError, Error, RightsError
from kvferry.runtime import Access, Place
from kvferry.runtime.cann.runtime import CannRuntime
from kvferry.testing import Parent, spawn
from tests.runtime.cann.npu import (
    Two,
    ferry,
    library,
    load,
    mapped,
    packed,
    runtime,
    store,
    unpacked,
)

PLACES = [place.value for place in Place]
SAID, ANSWERED = "from the owner", "from the user."
SIZE = len(SAID)


# ---- jobs ----


def own(parent: Parent, **how: Any) -> list[str]:
    """Exports memory of every place to whom it is told; returns what stands there at last."""
    with runtime(0, **how) as here, ExitStack() as owners:
        memories = [owners.enter_context(here.allocate(1, Place(place))) for place in PLACES]
        mappings = [owners.enter_context(mapped(here, memory)) for memory in memories]
        for mapping in mappings:
            store(mapping, SAID.encode())
        importer = parent.hear()
        handles = [here.export(memory, Access.WRITE, importer) for memory in memories]
        assert handles == [here.export(memory, Access.WRITE, importer) for memory in memories]
        parent.tell([packed(handle) for handle in handles])
        parent.hear()
        return [load(mapping, SIZE).decode() for mapping in mappings]


def use(parent: Parent, **how: Any) -> list[str]:
    """Imports what it is told twice, reads it and writes there. Copies run on a stream, from device
    to device: where nothing else serves, this does."""
    found = []
    with runtime(1, **how) as here, here.allocate(1, Place.DEVICE) as own:
        parent.tell(here.whoami().tgid)
        for told in parent.hear():
            first, second = (here.import_handle(unpacked(told)) for _ in range(2))
            with second, first, mapped(here, own) as stage:
                first.close()
                with mapped(here, second) as mapping:
                    assert mapping.reach is not None  # a processor cannot map what lies elsewhere
                    ferry(here, stage.address, mapping.address, SIZE)
                    found.append(load(stage, SIZE).decode())
                    store(stage, ANSWERED.encode())
                    ferry(here, mapping.address, stage.address, SIZE)
    return found


def refused(parent: Parent, **how: Any) -> list[Any]:
    """Why imports of what it is told are refused, and the code."""
    found = []
    with runtime(1, **how) as here:
        parent.tell(here.whoami().tgid)
        for told in parent.hear():
            with pytest.raises(Error) as why:
                here.import_handle(unpacked(told))
            found.append([type(why.value).__name__, why.value.code])
    return found


def outlive(parent: Parent) -> list[Any]:
    """Maps what it is told for reading, until long after its owner has gone."""
    with runtime(0) as here:
        parent.tell(here.whoami().tgid)
        handle = unpacked(parent.hear())
        with here.import_handle(handle) as memory, mapped(here, memory, Access.READ) as mapping:
            with pytest.raises(RightsError) as read_only:
                mapped(here, memory, Access.WRITE)
            parent.tell("mapped")
            parent.hear()
            stale = load(mapping, SIZE).decode()
            here.import_handle(handle).close()
        with pytest.raises(DeviceError) as gone:
            here.import_handle(handle)
    return [stale, read_only.value.cause, gone.value.code]


def export_and_idle(parent: Parent) -> None:
    """A process of its own, to be killed."""
    here = CannRuntime(library(), 0)
    memory = here.allocate(1, Place.DEVICE)
    store(mapped(here, memory), SAID.encode())
    parent.tell(packed(here.export(memory, Access.READ, parent.hear())))
    list(parent)
    os._exit(0)


# ---- tests ----


def settings(server: int = 0, profile: str = "A3", ipc: bool = False, **options: Any) -> Any:
    return {
        "options": options,
        "ipc": ipc,
        "NPU_SERVER_ID": str(server),
        "NPU_PROFILE": profile,
    }


def handles(two: Two, job: Callable[..., Any], user: Any, owner: Any, admitted: int | None) -> Any:
    """What `job` returned, for handles whose list holds `admitted`; None: who imports."""
    two.owner.begin(own, **owner)
    two.user.begin(job, **user)
    importer = two.user.hear()
    two.user.tell(two.owner.ask(importer if admitted is None else admitted))
    outcome = two.user.result()
    two.owner.tell("done")
    return outcome


LISTED = settings()
UNLISTED = settings(validate_pids=False)


@pytest.mark.parametrize(
    ("owner", "user"),
    [
        pytest.param(LISTED, LISTED, id="fabric with a list"),
        pytest.param(UNLISTED, UNLISTED, id="fabric without"),
        pytest.param(LISTED, settings(server=1), id="fabric across servers on the A3"),
        pytest.param(*[settings(shared="vmm-default")] * 2, id="default handles"),
        pytest.param(*[settings(profile="A2")] * 2, id="fabric inside a server on the A2"),
        pytest.param(*[settings(profile="950")] * 2, id="fabric inside a server on the 950"),
        pytest.param(*[settings(ipc=True)] * 2, id="keys with a list"),
        pytest.param(*[settings(ipc=True, validate_pids=False)] * 2, id="keys without"),
    ],
)
def test_each_reads_what_the_other_wrote(two: Two, owner: Any, user: Any) -> None:
    assert handles(two, use, user, owner, None) == [SAID] * 2
    assert two.owner.result() == [ANSWERED] * 2


@pytest.mark.parametrize("ipc", [False, True])
def test_who_is_not_on_the_list_may_not_import(two: Two, ipc: bool) -> None:
    how = settings(ipc=ipc)
    assert handles(two, refused, how, how, os.getpid()) == [["RightsError", 207006]] * 2
    assert two.owner.result() == [SAID] * 2


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"profile": "A2"}, id="fabric elsewhere than on the A3"),
        pytest.param({"shared": "vmm-default"}, id="default handles"),
        pytest.param({"ipc": True}, id="keys"),
    ],
)
def test_what_does_not_cross_servers(two: Two, how: Any) -> None:
    user, owner = (settings(server=server, validate_pids=False, **how) for server in (1, 0))
    assert handles(two, refused, user, owner, None) == [["Unsupported", 207000]] * 2
    assert two.owner.result() == [SAID] * 2


def test_memory_outlives_its_owner_while_it_is_mapped(
    two: Two,
) -> None:
    """And stays what it was: who must not take stale bytes for fresh ones looks at the epoch."""
    with spawn(export_and_idle) as owner:
        two.user.begin(outlive)
        two.user.tell(owner.ask(two.user.hear()))
        assert two.user.hear() == "mapped"
    two.user.tell("ended")
    assert two.user.result() == [SAID, "read_only", 507899]
