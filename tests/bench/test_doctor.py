from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvferry.bench import Finding, Machine, State, doctor, examine, judge, read_machine
from kvferry.bench.finding import Verdict
from tests.runtime.cann.stubs import build


def machine(**facts: Any) -> Machine:
    return replace(read_machine(), **facts)


def test_examines_everything_and_says_something_of_each() -> None:
    findings = examine()
    assert [finding.name for finding in findings] == list(doctor.PROBES)
    assert all(finding.detail for finding in findings)
    assert not [finding for finding in findings if "could not be examined" in finding.detail]


def test_a_probe_that_stumbles_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble() -> Verdict:
        raise RuntimeError("over this")

    monkeypatch.setitem(doctor.PROBES, "pidfd", stumble)
    findings = {finding.name: finding for finding in examine()}
    assert findings["pidfd"] == Finding(
        "pidfd", State.WARN, "could not be examined: RuntimeError: over this"
    )
    assert len(findings) == len(doctor.PROBES)


@pytest.mark.parametrize("probe", ["memory files", "seals", "pidfd"])
def test_what_the_kernel_refuses_is_a_finding(probe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(doctor.os, "memfd_create", refuse)
    monkeypatch.setattr(doctor.os, "pidfd_open", refuse)
    finding = doctor._examine(probe, doctor.PROBES[probe])
    assert finding.state is not State.OK
    assert "Function not implemented" in finding.detail


@pytest.mark.parametrize(
    ("probe", "native", "needs"),
    [
        (doctor.populate, "vm_populate", "Linux 5.14"),
        (doctor.collapse, "vm_collapse", "Linux 6.1"),
    ],
)
def test_an_older_kernel_is_named(
    probe: Any, native: str, needs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor._core, native, lambda *_: 22)
    verdict = probe()
    assert verdict.state is State.WARN
    assert needs in verdict.detail


@pytest.mark.parametrize(
    ("verdict", "state", "says"),
    [
        (judge.descriptors(1024, 1 << 20), State.OK, "1048576"),
        (judge.descriptors(1024, -1), State.OK, "any number"),
        (judge.descriptors(256, 1024), State.WARN, "ulimit -Hn"),
        (judge.locked_memory(8 << 20), State.OK, "8192 KiB"),
        (judge.locked_memory(-1), State.OK, "unlimited"),
        (judge.ptrace(None), State.OK, "one user"),
        (judge.ptrace("0"), State.OK, "one user"),
        (judge.ptrace("1"), State.WARN, "PR_SET_PTRACER"),
        (judge.ptrace("2"), State.WARN, "CAP_SYS_PTRACE"),
        (judge.ptrace("3"), State.WARN, "next boot"),
        (judge.ptrace("9"), State.WARN, "scope 9: unknown"),
        (judge.dumpable(1), State.OK, "may be read"),
        (judge.dumpable(0), State.WARN, "not dumpable (0)"),
        (judge.boot("b", {"net": 1, "pid": 2}), State.OK, "boot b; net 1, pid 2"),
        (judge.boot("b", {"net": None}), State.WARN, "namespaces"),
        (judge.boot(None, {"net": 1}), State.FAIL, "share a host"),
        (judge.packages({"torch": True, "nixl": False}), State.OK, "present: torch; absent"),
        (judge.copies(["memcpy", "nt_avx2"], "nt_avx2"), State.OK, "nt_avx2 for large copies"),
        (judge.copies(["memcpy"], "memcpy"), State.WARN, "memcpy only"),
        (judge.acl(["l.so"], (1, 17, 0), "A", {}), State.OK, "l.so: ACL 1.17.0 for A"),
        (judge.acl(["l.so"], (1, 17, 0), None, {}), State.OK, "a processor it does not name"),
        (judge.acl(["l"], (1, 1, 0), "A", {"c": ["f", "g"]}), State.WARN, "without c (lacks f, g)"),
        (judge.no_acl("why", False), State.OK, "needed for Ascend devices only: why"),
        (judge.no_acl("why", True), State.WARN, "why"),
    ],
)
def test_judges(verdict: Verdict, state: State, says: str) -> None:
    assert verdict.state is state
    assert says in verdict.detail


@pytest.mark.parametrize(
    ("setting", "state"),
    [("advise", State.OK), ("never", State.OK), ("deny", State.WARN), (None, State.WARN)],
)
def test_judges_huge_pages(setting: str | None, state: State) -> None:
    verdict = judge.huge_pages(machine(thp_shmem=setting, hugetlb=(8, 3)), 4096)
    assert verdict.state is state
    assert "2 MiB pool 3 of 8 free" in verdict.detail


def test_judges_container_limits() -> None:
    free = judge.container(machine(memory_limit=None, cpu_limit=None, usable_cpus=4))
    assert free == Verdict(State.OK, "memory not limited, processors not limited of 4")
    tight = judge.container(machine(memory_limit=1 << 30, cpu_limit=1.5, usable_cpus=4))
    assert tight.state is State.WARN
    assert "memory 1024 MiB, processors 1.5 of 4" in tight.detail
    assert "throttled" in tight.detail


def examine_cann() -> Finding:
    return doctor._examine("CANN", doctor.PROBES["CANN"])


def test_cann_is_found_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = build(tmp_path / "libcann.so", leave_out=["aclrtStreamStop"])
    monkeypatch.setenv("KVFERRY_ACL_LIBRARY", str(stub))
    assert examine_cann() == Finding(
        "CANN",
        State.WARN,
        f"{stub}: ACL 1.17.3 for Ascend910_0000, without stream stop (lacks aclrtStreamStop); "
        "a newer CANN may have them",
    )


def test_cann_that_was_asked_for_and_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVFERRY_ACL_LIBRARY", str(tmp_path / "libcann.so"))
    finding = examine_cann()
    assert finding.state is State.WARN
    assert f"{tmp_path / 'libcann.so'}: cannot open shared object file" in finding.detail
