"""What each code is raised as."""

from __future__ import annotations

import pytest

from kvferry.errors import (
    Cancelled,
    DeviceError,
    Error,
    Full,
    NoMemory,
    PeerError,
    RightsError,
    Timeout,
    Unsupported,
)
from kvferry.runtime.cann.codes import MEANINGS, Code, translate


def test_every_code_but_success_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Code) - {Code.NONE}


@pytest.mark.parametrize("code", MEANINGS, ids=lambda code: code.name)
def test_an_error_says_where_it_comes_from(code: Code) -> None:
    error = translate("aclrtMapMem", code, None)
    assert type(error) is MEANINGS[code].error
    assert error.code == code
    assert f"aclrtMapMem returned {code}, ACL_ERROR_{code.name} [" in str(error)


@pytest.mark.parametrize(
    ("code", "kind", "cause"),
    [
        (207000, Unsupported, "not_supported"),
        (207006, RightsError, "no_permission"),
        (207008, Full, "no_stream"),
        (207018, NoMemory, "no_memory"),
        (507056, PeerError, "fabric_link"),
        (507899, DeviceError, "acl"),
    ],
)
def test_meanings(code: int, kind: type[Error], cause: str) -> None:
    error = translate("aclrtMapMem", code, "why")
    assert (type(error), error.cause) == (kind, cause)


def test_only_a_refusal_says_that_nothing_moved() -> None:
    refused, failed = (translate("aclrtMemcpy", code, None) for code in (107000, 507013))
    assert (refused.bytes_moved, refused.safe_to_retry) == (0, True)
    assert (failed.bytes_moved, failed.safe_to_retry) == (None, False)
    of_the_device = {code for code, meaning in MEANINGS.items() if not meaning.refused}
    assert {code for code in Code if code >= 507003 and code < 507910} <= of_the_device


def test_nothing_the_library_says_promises_quiet() -> None:
    """Time that ran out, or an abort, there leaves open what may still land."""
    for code in MEANINGS:
        assert not isinstance(translate("aclrtStreamQuery", code, None), (Timeout, Cancelled))


@pytest.mark.parametrize("code", [1, -1, 100003, 507900, 999999])
def test_a_code_nobody_knows_promises_nothing(code: int) -> None:
    error = translate("aclrtMemcpy", code, "in a new way")
    assert isinstance(error, OSError)
    assert (error.code, error.bytes_moved, error.safe_to_retry) == (code, None, False)
    assert str(error) == (f"aclrtMemcpy returned {code}, a code unknown here: in a new way [acl]")
