"""Every combination of link, submitter and staging: legal, or refused with its reason."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry.errors import UsageError
from kvferry.link import DRIVERS
from kvferry.path import PRESETS, Addressing, LinkKind, Path, Staging, SubmitterKind, parse

EVERY = [Path(*kinds) for kinds in itertools.product(LinkKind, SubmitterKind, Staging)]

# The whole table; a kind that is added shows up here.
LEGAL = {"loopback/inline/none", "fabric/inline/none", "fabric/host/none"}


@pytest.mark.parametrize("path", EVERY, ids=str)
def test_legal_or_refused_with_a_reason(path: Path) -> None:
    if str(path) in LEGAL:
        assert path.refusal is None
        assert parse(path) == parse(str(path)) == (path,)
        assert path.addressing in Addressing
    else:
        assert path.refusal
        for form in (path, str(path)):
            with pytest.raises(UsageError, match="cannot exist") as caught:
                parse(form)
            assert caught.value.cause == "path"
            assert path.refusal in str(caught.value)


def test_the_table_is_whole() -> None:
    assert {str(path) for path in EVERY} >= LEGAL
    assert {driver.kind for driver in DRIVERS} == set(LinkKind)


def test_staging_may_be_left_out() -> None:
    assert parse("fabric/host") == (Path(LinkKind.FABRIC, SubmitterKind.HOST, Staging.NONE),)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_legal_paths(name: str) -> None:
    paths = parse(name)
    assert paths
    assert len(set(paths)) == len(paths)
    assert all(str(path) in LEGAL for path in paths)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "unknown path ''"),
        ("fabric", "give one of auto"),
        ("fabric/host/none/more", "unknown path"),
        ("Fabric/host", "unknown LinkKind 'Fabric'"),
        ("tcpip/host", "know loopback, fabric"),
        ("fabric/gpu", "unknown SubmitterKind 'gpu'"),
        ("fabric/host/ram", "unknown Staging 'ram'"),
        ("fabric/host/", "unknown Staging ''"),
    ],
)
def test_junk_is_refused(text: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.cause == "path"
    assert what in str(caught.value)


@given(st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse(text)
