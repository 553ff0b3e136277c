"""One table says which status an error is."""

from __future__ import annotations

import hixl
import pytest
from hixl.failures import LOSES_THE_CHANNEL, Refused, status_of, tell

import kvferry as kf

EXPECTED = {
    kf.UsageError: hixl.PARAM_INVALID,
    kf.RightsError: hixl.PARAM_INVALID,
    kf.ClosedError: hixl.NOT_CONNECTED,
    kf.ForkedError: hixl.FAILED,
    kf.PathRefused: hixl.UNSUPPORTED,
    kf.PeerError: hixl.FAILED,
    kf.Timeout: hixl.TIMEOUT,
    kf.NotQuiet: hixl.TIMEOUT,
    kf.Cancelled: hixl.FAILED,
    kf.NoMemory: hixl.RESOURCE_EXHAUSTED,
    kf.Full: hixl.RESOURCE_EXHAUSTED,
    kf.Unsupported: hixl.UNSUPPORTED,
    kf.DeviceError: hixl.FAILED,
}


def make(kind: type[kf.Error], cause: str = "any") -> kf.Error:
    """Whatever else its kind wants to be told."""
    bare = type(kind.__name__, (kind,), {"__init__": kf.Error.__init__})
    error: kf.Error = bare("text", cause=cause)
    return error


def test_every_error_of_kvferry_has_a_status() -> None:
    assert {kind: status_of(make(kind)) for kind in EXPECTED} == EXPECTED
    every = {getattr(kf, name) for name in kf.errors.__all__} - {kf.Error}
    assert every == set(EXPECTED)


def test_some_causes_say_more() -> None:
    for kind, cause, status in (
        (kf.UsageError, "address_in_use", hixl.FAILED),
        (kf.UsageError, "fault", hixl.FAILED),
        (kf.Full, "no_slot", hixl.FAILED),
        (kf.Full, "queue_full", hixl.RESOURCE_EXHAUSTED),
        (kf.ClosedError, "revoked", hixl.FAILED),
        (kf.ClosedError, "stale_region", hixl.PARAM_INVALID),
        (kf.RightsError, "token", hixl.FAILED),
    ):
        assert status_of(make(kind, cause)) == status, cause


def test_what_nobody_foresaw_is_a_failure_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert status_of(Refused(hixl.TIMEOUT, "text")) == hixl.TIMEOUT
    assert status_of(MemoryError()) == hixl.RESOURCE_EXHAUSTED
    assert status_of(ZeroDivisionError()) == hixl.FAILED
    assert not issubclass(kf.Full, LOSES_THE_CHANNEL)
    tell("verb", kf.NoMemory("none", cause="no_memory"))
    tell("verb", ZeroDivisionError("why"))
    assert [bool(each.exc_info) for each in caplog.records] == [False, True]
