"""`kvferry npu`: programs that know nothing of kvferry run on the software NPU."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvferry.cli import main
from kvferry.errors import Unsupported
from kvferry.runtime.cann import software
from kvferry.runtime.cann.functions import FUNCTIONS
from tests.native.harness import compile, why_not

LISTED = Path(__file__).parent / "listed"
KVFERRY = [sys.executable, "-c", "from kvferry.cli import main; main()"]
SANITIZER = "address,undefined"


def kvferry(*words: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NPU_")}
    return subprocess.run(
        [*KVFERRY, *map(str, words)],
        env={**inherited, **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that needs libacl_rt.so, linked with what lies where `kvferry npu path` says."""
    if why_not(SANITIZER) == "no C compiler":
        pytest.skip("no C compiler")
    path = software.find()
    link = [f"-I{path}", f"-L{path}", "-Wl,--no-as-needed", "-lacl_rt", "-lascendcl"]
    source = LISTED / "share.c"
    return compile(source, tmp_path_factory.mktemp("listed") / source.stem, *link)


def test_a_c_program_uses_listed_functions_only(program: Path) -> None:
    symbols = subprocess.run(["nm", "-u", program], capture_output=True, text=True, check=True)
    used = set(re.findall(r"\b((?:acl|npu_)\w+)", symbols.stdout))
    assert len(used) > 20
    assert used <= FUNCTIONS.keys()


def test_a_c_program_runs(program: Path) -> None:
    run = kvferry("npu", "run", "--profile", "A2", "--quiet", "--", program, "42")
    assert (run.stdout, run.stderr) == ("2097152 bytes by Ascend910B1, 0 wrong\n", "")
    assert run.returncode == 0


def test_a_c_program_fails_as_ordered(program: Path) -> None:
    options = ["--quiet", "--fail", "task:2=507056", "--fail", "aclrtFree=1"]
    run = kvferry("npu", "run", *options, program)
    assert "507056 from aclrtSynchronizeStreamWithTimeout(stream, 10000)" in run.stderr
    assert run.returncode == 1


@pytest.mark.parametrize("name", ["libascendcl.so", "libacl_rt_impl.so"])
def test_a_python_program_runs(name: str) -> None:
    script = LISTED / "round_trip.py"
    run = kvferry("npu", "run", sys.executable, script, name, NPU_PROFILE="950")
    assert run.stdout == f"Ascend950PR_9589 {[0] * 8} True\n"
    assert run.stderr == "software NPU: nothing measured here is Ascend's\n"
    assert run.returncode == 0


def test_the_program_takes_the_place_of_the_command() -> None:
    run = kvferry("npu", "run", "sh", "-c", "echo $$; kill -PIPE $$", "--quiet")
    assert run.returncode == -signal.SIGPIPE


Tell = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tell:
    """Runs the command in this process, for as far as it stays itself: status, output, errors."""
    for changed in ["LD_LIBRARY_PATH", "NPU_DEVICES"]:
        monkeypatch.setenv(changed, "")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kvferry", "npu", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_it_says_where_it_is(tell: Tell) -> None:
    assert tell("path") == (0, f"{software.find()}\n", "")


def test_what_cannot_be_run_is_one_line(tell: Tell) -> None:
    assert tell("run", "nonesuch") == (
        2,
        "",
        "kvferry: there is no command 'nonesuch' [no_command]\n",
    )
    status, _, said = tell("run", "--devices", "99", "true")
    assert (status, said.count("\n")) == (2, 1)
    assert "NPU_DEVICES=99" in said


def test_a_library_that_was_not_built_is_named(tmp_path: Path) -> None:
    (tmp_path / "libascendcl.so").touch()
    with pytest.raises(Unsupported, match=r"no libacl_rt.so, libacl_rt_impl.so in "):
        software.find(tmp_path)


def test_what_was_searched_before_is_searched_after() -> None:
    inherited = {"LD_LIBRARY_PATH": "/opt/lib:/lib"}
    told = software.environment(Path("/npu"), {"server_id": "3"}, inherited)
    assert told == {"LD_LIBRARY_PATH": "/npu:/opt/lib:/lib", "NPU_SERVER_ID": "3"}
    assert software.environment(Path("/npu"), {}, {}) == {"LD_LIBRARY_PATH": "/npu"}
