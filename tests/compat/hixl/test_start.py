"""The steps from nothing to an engine: their order, and that each can fail."""

from __future__ import annotations

from collections.abc import Callable

import hixl
import pytest
from hixl import engine as engine_module
from hixl import start as start_module
from hixl.session import Session
from hixl.start import STEPS

import kvferry as kf
from kvferry.testing import LeakCheck, spawn

from .conftest import FABRIC, MakeSide, Start, free_address
from .peer import serve


def test_the_order_is_hixls() -> None:
    assert [name for name, _ in STEPS] == [
        "supported options",
        "buffer pool",
        "fabric memory",
        "resources",
        "virtual memory",
        "auto connect",
        "statistics",
        "control server",
        "transfer service",
    ]


def failing(at: int, when: str) -> tuple[start_module.Step, ...]:
    """The steps, of which one fails: before it does anything, or when it has done everything."""
    name, step = STEPS[at]

    def fail(session: Session) -> None:
        if when == "after":
            step(session)
        raise kf.NoMemory(f"{name} failed on purpose", cause="no_memory")

    return (*STEPS[:at], (name, fail), *STEPS[at + 1 :])


@pytest.mark.parametrize("when", ["before", "after"])
def test_wherever_it_fails_nothing_is_left_and_it_can_be_started_again(
    when: str, monkeypatch: pytest.MonkeyPatch, said: Callable[[], str]
) -> None:
    engine, name = hixl.Hixl(), free_address()
    for at, (step, _) in enumerate(STEPS):
        steps = failing(at, when)
        with LeakCheck(), monkeypatch.context() as patch:
            patch.setattr(
                engine_module, "start", lambda *given, s=steps: start_module.start(*given, s)
            )
            assert engine.initialize(name, FABRIC) == hixl.RESOURCE_EXHAUSTED, step
        assert f"{step} failed on purpose" in said()
        assert engine.malloc_mem(hixl.MEM_HOST, 4096) == (hixl.FAILED, 0)
        assert engine.initialize(name, FABRIC) == hixl.SUCCESS
        assert engine.malloc_mem(hixl.MEM_HOST, 4096)[0] == hixl.SUCCESS
        engine.finalize()


def test_an_engine_that_is_dropped_is_finalized() -> None:
    with LeakCheck():
        engine = hixl.Hixl()
        assert engine.initialize(free_address()) == hixl.SUCCESS
        assert engine.malloc_mem(hixl.MEM_HOST, 1 << 20)[0] == hixl.SUCCESS
        assert engine.connect_async("127.0.0.1:1") == hixl.SUCCESS
        del engine


def test_a_forked_child_begins_anew_and_waits_for_no_lock_of_the_parents(side: MakeSide) -> None:
    theirs = side()
    with spawn(serve) as child:
        assert child.ask(["initialize", "127.0.0.1", {}]) == hixl.SUCCESS
        assert child.ask(["fork", theirs.name]) == [0, hixl.SUCCESS]
        child.result()


@pytest.mark.parametrize(
    ("options", "pool"), [({}, "4:8"), ({"BufferPool": "2:4"}, "2:4"), (FABRIC, "0:0")]
)
def test_the_pool_reaches_the_engine(start: Start, options: dict[str, str], pool: str) -> None:
    assert start(options=options)._session.engine.options.bounce == pool
