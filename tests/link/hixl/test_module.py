"""What the vendor's statuses are raised as, and what of its module must be there."""

from __future__ import annotations

import sys

import pytest

from kvferry.errors import PeerError, Unsupported
from kvferry.link.hixl.module import MEANINGS, USED, Code, broken, load, translate
from tests.link.hixl import standin
from tests.link.hixl.standin import StandIn, without


def test_every_status_that_is_listed_has_a_meaning() -> None:
    assert set(MEANINGS) == set(standin.STATUSES) == set(Code) - {Code.SUCCESS}
    assert {each: Code(each).name for each in standin.STATUSES} == {
        each: next(name for name, value in vars(standin).items() if value is each)
        for each in standin.STATUSES
    }


@pytest.mark.parametrize("status", [*standin.STATUSES, 999])
def test_the_number_is_kept(status: int) -> None:
    error = translate("a call", status, "the peer")
    assert (error.code, error.peer) == (status, "the peer")
    assert f"a call ended with {status}" in str(error)
    assert error.safe_to_retry is (error.bytes_moved == 0)
    lost = broken("a call", status, "the peer")
    assert isinstance(lost, PeerError)
    assert (lost.code, lost.cause, lost.bytes_moved) == (status, error.cause, None)


def test_what_the_vendor_calls_not_recoverable_is_not_refused() -> None:
    ends = {code for code, meaning in MEANINGS.items() if not meaning.refused}
    assert ends == {Code.TIMEOUT, Code.NOT_CONNECTED, Code.FAILED}


@pytest.mark.parametrize("used", [each for each in USED if "." in each])
def test_a_module_without_one_of_what_is_used(used: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = StandIn()
    holder, _, name = used.partition(".")
    setattr(module, holder, without(getattr(module, holder), name))
    monkeypatch.setitem(sys.modules, "hixl", module)
    with pytest.raises(Unsupported, match="has no") as caught:
        load()
    assert used in str(caught.value)
    assert caught.value.cause == "module_version"


def test_a_module_that_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hixl", None)
    with pytest.raises(Unsupported) as caught:
        load()
    assert caught.value.cause == "no_module"
