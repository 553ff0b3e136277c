"""The tree of errors: each is its builtin, too, and carries what its catcher needs."""

from __future__ import annotations

import pytest

from kvferry import errors
from kvferry.errors import (
    Cancelled,
    ClosedError,
    DeviceError,
    Error,
    ForkedError,
    Full,
    NoMemory,
    NotQuiet,
    PathRefused,
    PeerError,
    RightsError,
    Timeout,
    Unsupported,
    UsageError,
)

BUILTINS: dict[type[Error], type[Exception]] = {
    Error: Exception,
    UsageError: ValueError,
    RightsError: PermissionError,
    ClosedError: RuntimeError,
    ForkedError: ClosedError,
    PeerError: ConnectionError,
    Timeout: TimeoutError,
    Cancelled: Error,
    NoMemory: MemoryError,
    Full: BlockingIOError,
    Unsupported: NotImplementedError,
    DeviceError: OSError,
}
SPECIAL: dict[type[Error], type[Exception]] = {PathRefused: ConnectionError, NotQuiet: Timeout}


def test_the_tree_is_whole() -> None:
    named = {getattr(errors, name) for name in errors.__all__}
    assert named == {*BUILTINS, *SPECIAL}
    assert all(issubclass(kind, Error) for kind in named)


@pytest.mark.parametrize("kind", BUILTINS, ids=lambda kind: kind.__name__)
def test_caught_by_its_builtin_with_its_fields(kind: type[Error]) -> None:
    with pytest.raises(BUILTINS[kind]) as caught:
        raise kind(
            "it went wrong",
            cause="because",
            peer="h:1",
            index=3,
            range=(0x1000, 0x20),
            bytes_moved=None,
            safe_to_retry=False,
            code=507899,
            detail="in their words",
        )
    error = caught.value
    assert isinstance(error, Error)
    assert (error.code, error.detail) == (507899, "in their words")
    assert (error.cause, error.peer, error.index) == ("because", "h:1", 3)
    assert (error.range, error.bytes_moved, error.safe_to_retry) == ((0x1000, 0x20), None, False)
    assert str(error) == "it went wrong, descriptor 3, range 0x1000+0x20, peer h:1 [because]"
    twin = error.again()
    assert (type(twin), twin.args, vars(twin)) == (kind, error.args, vars(error))
    assert error.args == ("it went wrong",)


@pytest.mark.parametrize("kind", BUILTINS, ids=lambda kind: kind.__name__)
def test_by_default_nothing_moved(kind: type[Error]) -> None:
    error = kind("it went wrong", cause="because")
    assert (error.peer, error.index, error.range) == (None, None, None)
    assert (error.bytes_moved, error.safe_to_retry) == (0, True)
    assert (error.code, error.detail) == (None, None)
    assert str(error) == "it went wrong [because]"


def test_an_index_of_0_is_told() -> None:
    assert "descriptor 0" in str(UsageError("bad", cause="because", index=0))


def test_path_refused_says_why_for_each() -> None:
    error = PathRefused("no path", peer="h:1", rejected={"fabric/host/none": "other host"})
    assert isinstance(error, ConnectionError)
    assert (error.cause, error.rejected) == ("no_path", {"fabric/host/none": "other host"})
    assert str(error) == "no path, peer h:1 [no_path]"


def test_not_quiet_can_be_waited_for() -> None:
    asked: list[float | None] = []

    def wait(timeout: float | None) -> bool:
        asked.append(timeout)
        return timeout is None

    error = NotQuiet("bytes may land", peer="h:1", wait_quiet=wait)
    assert isinstance(error, TimeoutError)
    assert (error.bytes_moved, error.safe_to_retry) == (None, False)
    assert (error.wait_quiet(1.5), error.wait_quiet()) == (False, True)
    assert asked == [1.5, None]
