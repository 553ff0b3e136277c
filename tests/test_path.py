"""Every combination of link, submitter and staging: legal, or refused with its reason."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry.errors import UsageError
from kvferry.link import DRIVERS
from kvferry.link.hixl import HixlDriver
from kvferry.path import PRESETS, Addressing, LinkKind, Path, Staging, SubmitterKind, parse, want

EVERY = [Path(*kinds) for kinds in itertools.product(LinkKind, SubmitterKind, Staging)]

# The whole table; a kind that is added shows up here.
LEGAL = {
    "loopback/inline/none",
    "fabric/inline/none",
    "fabric/host/none",
    "fabric/coprocessor/none",
    "cma/inline/none",
    "cma/host/none",
    "cma/coprocessor/none",
    "cma/inline/bounce",
    "cma/host/bounce",
    "cma/coprocessor/bounce",
    "tcp/host/none",
    "tcp/host/bounce",
    "hixl/host/none",
}


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
    assert {driver.kind for driver in (*DRIVERS, HixlDriver)} == set(LinkKind)


def test_staging_may_be_left_out() -> None:
    assert parse("fabric/host") == (Path(LinkKind.FABRIC, SubmitterKind.HOST, Staging.NONE),)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_legal_paths(name: str) -> None:
    paths = parse(name)
    assert paths
    assert len(set(paths)) == len(paths)
    assert any(str(path) in LEGAL for path in paths)
    assert all(str(path) in LEGAL for path in paths if name != "direct")


def test_direct_says_why_it_goes_without_staging() -> None:
    staged = [path for path in parse("direct") if path.staging is Staging.BOUNCE]
    mapped, others = [LinkKind.LOOPBACK, LinkKind.FABRIC], [LinkKind.CMA, LinkKind.HIXL]
    assert [path.link for path in staged] == [*mapped, *others, LinkKind.TCP]
    assert all(path.refusal for path in staged if path.link in (*mapped, LinkKind.HIXL))
    assert staged[-1].refusal is None
    plain = [path for path in parse("direct") if path.staging is Staging.NONE]
    assert [path.link for path in plain] == [*mapped, *others]


def test_the_vendor_engine_is_in_no_preset_that_promises_any_buffer() -> None:
    with_hixl = {
        name for name, paths in PRESETS.items() if any(each.link is LinkKind.HIXL for each in paths)
    }
    assert with_hixl == {"direct"}


@pytest.mark.parametrize(
    ("path", "forced", "texts"),
    [
        ("auto", {"link": "tcp"}, ["tcp/host/none"]),
        ("direct", {"link": "tcp"}, ["tcp/host/bounce"]),
        ("direct", {"link": "tcp", "staging": "none"}, ["tcp/host/none"]),
        ("ubshmem", {"submitter": "inline"}, ["fabric/inline/none"]),
        ("fabricmem", {"submitter": "host"}, ["fabric/host/none"]),
        ("fabric/host", {"link": "fabric", "submitter": "host"}, ["fabric/host/none"]),
        (
            "rma",
            {"submitter": "coprocessor"},
            ["cma/coprocessor/none", "tcp/coprocessor/none"],
        ),
    ],
)
def test_any_field_may_be_forced(path: str, forced: dict[str, str], texts: list[str]) -> None:
    assert [str(each) for each in want(path, **forced)] == texts


@pytest.mark.parametrize(
    ("path", "forced", "both"),
    [
        ("fabric/host", {"link": "tcp"}, ["path='fabric/host'", "link='tcp'"]),
        ("tcp/host/bounce", {"staging": "none"}, ["path='tcp/host/bounce'", "staging='none'"]),
        ("fabric/inline", {"submitter": "host"}, ["path='fabric/inline'", "submitter='host'"]),
        ("ubshmem", {"link": "tcp"}, ["path='ubshmem'", "link='tcp'"]),
    ],
)
def test_contradictions_name_both(path: str, forced: dict[str, str], both: list[str]) -> None:
    with pytest.raises(UsageError, match="contradict") as caught:
        want(path, **forced)
    assert caught.value.cause == "contradiction"
    assert all(word in str(caught.value) for word in both)


def test_a_forced_field_that_nothing_can_have_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to stage"):
        want("ubshmem", staging="bounce")
    with pytest.raises(UsageError, match="know none, bounce"):
        want("auto", staging="ram")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "unknown path ''"),
        ("fabric", "give one of auto"),
        ("fabric/host/none/more", "unknown path"),
        ("Fabric/host", "unknown link 'Fabric'"),
        ("tcpip/host", "know loopback, fabric, cma, tcp, hixl"),
        ("fabric/gpu", "unknown submitter 'gpu'"),
        ("fabric/host/ram", "unknown staging 'ram'"),
        ("fabric/host/", "unknown staging ''"),
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
