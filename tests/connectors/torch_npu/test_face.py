"""What Python sees of it; torch_npu is a stand-in."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import kvferry as kf
from kvferry.connectors import torch_npu

MEMORY = "torch_npu.npu.memory"


class NPUPluggableAllocator(NamedTuple):
    """Signature of torch_npu 2.1 and later."""

    path_to_so_file: str
    alloc_fn_name: str
    free_fn_name: str


def test_the_library_lies_in_the_package() -> None:
    path = torch_npu.library_path()
    assert path.is_file()
    assert path.with_name("allocator.h").is_file()


def test_an_installation_without_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_npu, "LIBRARY", tmp_path / "none.so")
    with pytest.raises(kf.Unsupported, match=r"none\.so") as raised:
        torch_npu.allocator()
    assert raised.value.cause == "no_library"


def test_the_allocator_is_torch_npus(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ModuleType(MEMORY)
    monkeypatch.setattr(memory, "NPUPluggableAllocator", NPUPluggableAllocator, raising=False)
    for name in ("torch_npu", "torch_npu.npu"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, MEMORY, memory)
    made = torch_npu.allocator()
    assert made == (str(torch_npu.library_path()), "kvferry_malloc", "kvferry_free")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("raise ImportError('libhccl.so: cannot open shared object file')", "libhccl.so"),
        ("raise OSError('no driver')", "no driver"),
    ],
)
def test_a_torch_npu_that_cannot_be_imported_is_unsupported(
    body: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch_npu.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch_npu", raising=False)
    with pytest.raises(kf.Unsupported, match=why) as raised:
        torch_npu.allocator()
    assert raised.value.cause == "no_torch_npu"


def test_no_torch_npu_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    with pytest.raises(kf.Unsupported, match="no torch_npu: "):
        torch_npu.allocator()
