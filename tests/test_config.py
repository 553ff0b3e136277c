"""Options from an environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvferry.config import MAX_COPY_ENGINES, Options, from_environment
from kvferry.errors import UsageError

HOME = {"XDG_STATE_HOME": "/state"}


def test_an_empty_environment() -> None:
    options = from_environment({})
    assert options.token is None
    assert options.token_file == Path.home() / ".local" / "state" / "kvferry" / "token"
    assert options.copy_engines == min(len(os.sched_getaffinity(0)), 8)


def test_all_that_can_be_set() -> None:
    options = from_environment(
        {"KVFERRY_TOKEN": "secret", "KVFERRY_TOKEN_FILE": "/t", "KVFERRY_COPY_ENGINES": "3"}
    )
    assert (options.token, options.token_file, options.copy_engines) == (b"secret", Path("/t"), 3)


def test_where_the_token_lies() -> None:
    assert from_environment(HOME).token_file == Path("/state/kvferry/token")
    assert from_environment({**HOME, "KVFERRY_TOKEN_FILE": "/t"}).token_file == Path("/t")
    assert from_environment({**HOME, "KVFERRY_TOKEN_FILE": ""}).token_file.name == "token"
    assert from_environment({"XDG_STATE_HOME": ""}).token_file.is_absolute()


@pytest.mark.parametrize("given", [{}, {"XDG_CACHE_HOME": ""}])
def test_where_downloads_are_kept(given: dict[str, str]) -> None:
    assert from_environment({"XDG_CACHE_HOME": "/c"}).cache == Path("/c/kvferry")
    assert from_environment(given).cache == Path.home() / ".cache" / "kvferry"


def test_without_a_home_nothing_else_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert from_environment({"KVFERRY_TOKEN_FILE": "/t"}).cache is None


def test_a_token_is_its_bytes() -> None:
    assert from_environment({"KVFERRY_TOKEN": "schlüssel"}).token == "schlüssel".encode()


def test_a_token_need_not_be_text() -> None:
    assert from_environment({"KVFERRY_TOKEN": os.fsdecode(b"\x80\xff")}).token == b"\x80\xff"


def test_an_empty_token_is_refused() -> None:
    with pytest.raises(UsageError, match="set but empty") as caught:
        from_environment({"KVFERRY_TOKEN": ""})
    assert caught.value.cause == "token"


def test_where_the_acl_library_lies() -> None:
    assert from_environment({}).acl_library is None
    assert from_environment({"KVFERRY_ACL_LIBRARY": ""}).acl_library is None
    assert from_environment({"KVFERRY_ACL_LIBRARY": "/a.so"}).acl_library == "/a.so"


@pytest.mark.parametrize("text", ["1", "64", "007"])
def test_copy_engines(text: str) -> None:
    assert from_environment({"KVFERRY_COPY_ENGINES": text}).copy_engines == int(text)


@pytest.mark.parametrize(
    "text",
    [
        *["", "0", "65", "-1", "2.0", "two", " 2", "0x2", "²", str(10**30)],
        pytest.param("9" * 5000, id="5000 digits"),
    ],
)
def test_no_number_of_copy_engines(text: str) -> None:
    with pytest.raises(UsageError, match=f"not a number from 1 to {MAX_COPY_ENGINES}") as caught:
        from_environment({"KVFERRY_COPY_ENGINES": text})
    assert caught.value.cause == "environment"


@pytest.mark.parametrize(("text", "ptracer"), [("0", False), ("1", True)])
def test_ptracer(text: str, ptracer: bool) -> None:
    assert from_environment({}).ptracer is False
    assert from_environment({"KVFERRY_PTRACER": text}).ptracer is ptracer


@pytest.mark.parametrize("text", ["", "yes", "2", " 1", "01"])
def test_no_choice_of_ptracer(text: str) -> None:
    with pytest.raises(UsageError, match="not 0 or 1") as caught:
        from_environment({"KVFERRY_PTRACER": text})
    assert caught.value.cause == "environment"


TB = 1 << 40


@pytest.mark.parametrize(
    ("text", "size"),
    [("1T", TB), ("1024T", 1024 * TB), ("2048G", 2 * TB), (str(TB), TB), (f"{TB >> 10}K", TB)],
)
def test_addresses(text: str, size: int) -> None:
    options = from_environment({"KVFERRY_VA_CAPACITY": text, "KVFERRY_VA_START": text})
    assert (options.va_capacity, options.va_start) == (size, size)


def test_addresses_by_default() -> None:
    assert (from_environment({}).va_capacity, from_environment({}).va_start) == (32 * TB, 40 * TB)
    assert from_environment({"KVFERRY_VA_START": "0"}).va_start == 0
    assert from_environment({"KVFERRY_VA_START": "512G"}).va_start == TB // 2
    assert Options(token_file=Path("/t")).va_capacity == 32 * TB


@pytest.mark.parametrize("text", ["", "T", "1025T", "-1T", "1.5T", "1TB", " 1T", "²", "9" * 5000])
@pytest.mark.parametrize("name", ["KVFERRY_VA_CAPACITY", "KVFERRY_VA_START"])
def test_no_addresses(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is .*to 1024 TB") as caught:
        from_environment({name: text})
    assert caught.value.cause == "environment"


def test_a_capacity_below_a_tb_is_refused() -> None:
    with pytest.raises(UsageError, match="bytes from 1 to 1024 TB, such as 32T"):
        from_environment({"KVFERRY_VA_CAPACITY": "512G"})


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVFERRY_COPY_ENGINES", "5")
    assert from_environment().copy_engines == 5


def test_tls_is_three_files_and_a_switch() -> None:
    names = ("TLS_CERT", "TLS_KEY", "TLS_CA")
    options = from_environment({**HOME, **{f"KVFERRY_{name}": f"/{name}" for name in names}})
    files = (options.tls_cert, options.tls_key, options.tls_ca)
    assert files == (Path("/TLS_CERT"), Path("/TLS_KEY"), Path("/TLS_CA"))
    assert options.tls_check_host
    options = from_environment({**HOME, "KVFERRY_TLS_CERT": "", "KVFERRY_TLS_CHECK_HOST": "0"})
    assert (options.tls_cert, options.tls_check_host) == (None, False)


def test_options_are_frozen() -> None:
    options = Options(token_file=Path("/t"))
    with pytest.raises(AttributeError):
        options.copy_engines = 3  # type: ignore[misc]
