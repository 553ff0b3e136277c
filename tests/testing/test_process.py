from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvferry.testing import Child, ChildFailed, Parent
from kvferry.testing import spawn as spawn_owned

Spawn = Callable[..., Child]


@pytest.fixture(params=["nursery", "interpreter"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "interpreter":  # what it reads at its start is not what the nursery read
        monkeypatch.setenv("PYTHONNODEBUGRANGES", "1")
    return str(request.param)


def echo(parent: Parent, plus: int) -> dict[str, int]:
    heard = 0
    for value in parent:
        parent.tell(value + plus)
        heard += 1
    return {"heard": heard, "pid": os.getpid()}


def fail(parent: Parent) -> None:
    raise LookupError("the child's own words")


def leave(parent: Parent) -> None:
    os._exit(7)


def hang(parent: Parent) -> None:
    parent.tell("up")
    signal.pause()


def import_path(parent: Parent) -> list[str]:
    return sys.path


def look_around(parent: Parent) -> list[Any]:
    print("heard by the caller", flush=True)
    held = os.listdir("/proc/self/fd")
    return [os.environ["SAID"], os.getcwd(), len(held)]


def imported(parent: Parent) -> bool:
    return "hypothesis" in sys.modules


def have_a_child(parent: Parent) -> None:
    grandchild = spawn_owned(hang)
    grandchild.hear()
    parent.tell(grandchild.pid)
    signal.pause()


def test_talks_and_returns(spawn: Spawn) -> None:
    child = spawn(echo, 10)
    assert [child.ask(n) for n in (1, 2, 3)] == [11, 12, 13]
    assert child.result() == {"heard": 3, "pid": child.pid}
    assert child.wait() == 0
    assert child.pid != os.getpid()


def test_carries_a_value_larger_than_a_socket_buffer(spawn: Spawn) -> None:
    child = spawn(echo, [0])
    assert child.ask([1] * 500_000, timeout=20) == [1] * 500_000 + [0]


def test_several_values_in_one_piece_stay_apart(spawn: Spawn) -> None:
    child = spawn(echo, 0)
    for n in range(50):
        child.tell(n)
    assert [child.hear() for _ in range(50)] == list(range(50))


def test_an_exception_there_is_raised_here_with_its_traceback(spawn: Spawn) -> None:
    with pytest.raises(ChildFailed, match=r"(?s)fail in process .*LookupError: the child's own"):
        spawn(fail).result()


def test_a_child_that_vanishes_is_told_from_one_that_is_silent(spawn: Spawn) -> None:
    with pytest.raises(ChildFailed, match="status 7"):
        spawn(leave).hear()
    silent = spawn(hang)
    assert silent.hear() == "up"
    with pytest.raises(TimeoutError, match="said nothing"):
        silent.hear(timeout=0.05)


def test_a_return_is_not_taken_for_a_word(spawn: Spawn) -> None:
    with pytest.raises(ChildFailed, match="returned"):
        spawn(import_path).hear()


def test_killed_is_reaped(spawn: Spawn) -> None:
    child = spawn(hang)
    child.hear()
    assert child.alive()
    child.kill()
    assert not child.alive()
    assert child.wait() == -signal.SIGKILL
    assert not Path(f"/proc/{child.pid}").exists()


def test_stopped_says_nothing_until_resumed(spawn: Spawn) -> None:
    child = spawn(echo, 0)
    assert child.ask(1) == 1
    child.stop()
    with pytest.raises(TimeoutError):
        child.ask(2, timeout=0.05)
    child.resume()
    assert child.hear() == 2


def test_a_stopped_child_is_reaped_too(spawn: Spawn) -> None:
    with spawn(hang) as child:
        child.hear()
        child.stop()
    assert not Path(f"/proc/{child.pid}").exists()


def test_imports_from_where_its_parent_does(spawn: Spawn) -> None:
    assert spawn(import_path).result() == sys.path


def test_is_where_its_parent_is_and_holds_nothing_else(
    spawn: Spawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAID", "so")
    spawn(hang).hear()  # whose descriptors are not inherited
    # the streams, the wire, and the listing itself
    assert spawn(look_around).result() == ["so", str(tmp_path), 5]
    assert capfd.readouterr().out == "heard by the caller\n"


def test_only_a_nursery_has_imported_what_tests_import(spawn: Spawn, way: str) -> None:
    assert spawn(imported).result() == (way == "nursery")


def test_dies_with_its_parent(spawn: Spawn) -> None:
    child = spawn(have_a_child)
    grandchild = os.pidfd_open(child.hear())
    try:
        child.kill()
        assert _ended(grandchild, seconds=10)
    finally:
        os.close(grandchild)


def _ended(pidfd: int, seconds: float) -> bool:
    return bool(select.select([pidfd], [], [], seconds)[0])
