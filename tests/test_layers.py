"""The layers of src/kvferry: who may import whom, and what must not be imported at all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "kvferry"

# Bottom up. A unit (a folder or a file of the package) may import units of lower rows, and nothing
# of its own row. "__init__" is the face of the package; who imports it imports everything in it.
ROWS = [
    ["_core"],
    ["errors", "log"],
    ["config", "address", "path", "batch", "stats", "picture"],
    ["runtime", "rpc"],
    ["memory"],
    ["submit"],
    ["link"],
    ["engine"],
    ["store"],
    ["replay", "paged"],
    ["__init__"],
    ["connectors", "compat"],
    ["bench", "watch"],
    ["demo"],
    ["cli"],
    ["__main__"],
]
ROW = {unit: row for row, units in enumerate(ROWS) for unit in units}

# Beside the tower: it may use all of it but the doors, and nobody in the package may use it.
BESIDE = {"testing": {"bench", "watch", "demo", "cli", "__main__"}}

# Units, and of packages that bear the names of others the one module that reads their variables.
READS_ENVIRONMENT = {
    "config",
    "cli",
    "compat.mooncake.mooncake.variables",
    "testing.nursery",
    "testing.process",
}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb"}
FORBIDDEN = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
SOURCES = {".py", ".pyx", ".pxi", ".pxd", ".pyi"}
SMALLEST_FOLDER = 3
COUNTED = {*SOURCES, ".c", ".h"}

# Folders of what stands alone, however little there is of it.
SHELVES = {"connectors"}

CYTHON_IMPORT = re.compile(
    r"^\s*(?:from\s+([\w.]+)\s+c?import\s+([\w, ]+)|c?import\s+([\w.]+))", re.M
)


@dataclass(frozen=True)
class Module:
    """One source file. `name` is dotted, from the package down; `unit` is its place in ROWS."""

    name: str
    unit: str
    text: str
    is_package: bool
    is_python: bool

    def imports(self) -> Iterator[str]:
        """Every module or name this one imports, dotted and absolute."""
        return self._from_ast() if self.is_python else self._from_text()

    def reads_environment(self) -> bool:
        if not self.is_python:
            return False
        return any(
            (isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT)
            or (isinstance(node, ast.alias) and node.name in ENVIRONMENT)
            for node in ast.walk(ast.parse(self.text))
        )

    def _from_ast(self) -> Iterator[str]:
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute("." * node.level + (node.module or ""))
                yield from (f"{base}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Call) and _called(node.func) in {
                "import_module",
                "__import__",
            }:
                yield from (
                    self._absolute(word.value)
                    for word in node.args
                    if isinstance(word, ast.Constant) and isinstance(word.value, str)
                )

    def _from_text(self) -> Iterator[str]:
        for base, names, plain in CYTHON_IMPORT.findall(self.text):
            if plain:
                yield plain
            yield from (
                f"{self._absolute(base)}.{name.strip()}" for name in names.split(",") if base
            )

    def _absolute(self, name: str) -> str:
        """`name`, which may begin with dots, seen from this module."""
        level = len(name) - len(name.lstrip("."))
        if level == 0:
            return name
        home = self.name.split(".")
        kept = home[: len(home) - level + self.is_package]
        return ".".join([*kept, *filter(None, [name[level:]])])


def _called(function: ast.expr) -> str | None:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None


def read(source: Path) -> list[Module]:
    """Every module of the package in folder `source`."""
    files = sorted(file for file in source.rglob("*") if file.suffix in SOURCES)
    return [_module(file, source) for file in files]


def _module(file: Path, source: Path) -> Module:
    parts = file.relative_to(source).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    return Module(
        name=".".join([PACKAGE, *(parts[:-1] if is_package else parts)]),
        unit=parts[0],
        text=file.read_text(),
        is_package=is_package,
        is_python=file.suffix in {".py", ".pyi"},
    )


def unit_of(name: str) -> str | None:
    """The unit of our package that an imported dotted name belongs to; None for other packages."""
    first, *rest = name.split(".")
    if first != PACKAGE:
        return None
    return rest[0] if rest and rest[0] in {*ROW, *BESIDE} else "__init__"


def complaints(source: Path) -> list[str]:
    """What in the package in folder `source` breaks a rule, one sentence each."""
    return [said for module in read(source) for said in _about_module(module)] + [
        f"{folder.name}: {count} source files, fewer than {SMALLEST_FOLDER}"
        for folder, count in _folders(source)
        if count < SMALLEST_FOLDER
    ]


def _about_module(module: Module) -> Iterator[str]:
    if module.unit not in {*ROW, *BESIDE}:
        yield f"{module.name}: stands in no row of the table"
        return
    for name in sorted(set(module.imports())):
        if name.split(".")[0] in FORBIDDEN:
            yield f"{module.name}: imports {name}, which runs what it reads"
        unit = unit_of(name)
        if unit is not None and not _may_import(module.unit, unit):
            yield f"{module.name}: imports {name}, which is not below {module.unit}"
    places = {module.unit, module.name.removeprefix(f"{PACKAGE}.")}
    if not places & READS_ENVIRONMENT and module.reads_environment():
        yield f"{module.name}: reads the environment"


def _may_import(unit: str, other: str) -> bool:
    if unit == other:
        return True
    if unit in BESIDE:
        return other not in BESIDE[unit]
    return other not in BESIDE and ROW[other] < ROW[unit]


def _folders(source: Path) -> Iterator[tuple[Path, int]]:
    """The folders of the package with source files, and how many, folders of such in them counted
    like files; without shelves. Empty ones do not exist yet."""
    for folder in sorted(path for path in source.rglob("*") if path.is_dir()):
        if folder.name not in SHELVES and any(file.suffix in SOURCES for file in folder.iterdir()):
            yield folder, sum(map(_is_source, folder.iterdir()))


def _is_source(path: Path) -> bool:
    return path.suffix in COUNTED or (
        path.is_dir() and any(file.suffix in COUNTED for file in path.rglob("*"))
    )


def _tests_of(folder: Path) -> Path:
    """compat/NAME/NAME, imported as NAME, has its tests in compat/NAME, and so have its folders."""
    first, *names = folder.parts
    doubled = first == "compat" and len(names) > 1 and names[0] == names[1]
    return Path(first, *names[1:]) if doubled else folder


def test_the_package_keeps_its_layers() -> None:
    assert complaints(ROOT / "src" / PACKAGE) == []


def test_every_folder_has_its_tests() -> None:
    source, tests = ROOT / "src" / PACKAGE, ROOT / "tests"
    folders = [folder.relative_to(source) for folder, _ in _folders(source)]
    assert [str(name) for name in folders if not _tested(tests / _tests_of(name))] == []


def _tested(folder: Path) -> bool:
    return any(folder.glob("test_*.py"))


def test_the_table_names_each_unit_once() -> None:
    named = [unit for units in ROWS for unit in units] + list(BESIDE)
    assert sorted(named) == sorted(set(named))


def plant(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("path.py", "from .errors import UsageError"),
        ("engine/a.py", "from ..link import fabric\nfrom . import b\nimport os, kvferry.errors"),
        ("engine/__init__.py", "from .a import A\nfrom ..memory import Region"),
        ("bench/a.py", "import kvferry as kf\nfrom kvferry import Engine"),
        ("__init__.py", "from .engine import Engine\nfrom . import errors"),
        ("cli/a.py", "import os\nos.environ['HOME']\nfrom ..bench import a"),
        ("config.py", "import os\nos.getenv('HOME')"),
        ("compat/mooncake/mooncake/variables.py", "import os\nos.environ['MC_FORCE_TCP']"),
        ("compat/mooncake/mooncake/a.py", "from kvferry import Engine\nfrom .b import c"),
        ("testing/a.py", "from ..engine import Engine\nfrom kvferry._core import core"),
        (
            "_core/core.pyx",
            "cimport cython\nfrom libc.stdint cimport uint64_t\nfrom .core import x",
        ),
    ],
)
def test_accepts(file: str, text: str, tmp_path: Path) -> None:
    assert [said for said in complaints(plant(tmp_path, {file: text})) if "fewer" not in said] == []


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("errors.py", "from .path import Path", "kvferry.path.Path, which is not below errors"),
        ("memory/a.py", "from ..engine.channel import C", "not below memory"),
        ("memory/__init__.py", "from ..engine import C", "not below memory"),
        ("path.py", "from . import address", "kvferry.address, which is not below path"),
        ("runtime/a.py", "import kvferry.rpc.socket", "not below runtime"),
        ("rpc/a.py", "from kvferry import runtime", "not below rpc"),
        ("engine/a.py", "from kvferry import Engine", "kvferry.Engine, which is not below engine"),
        ("engine/a.py", "def f():\n    from ..cli import main", "not below engine"),
        (
            "link/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..engine import E",
            "kvferry.engine.E, which is not below link",
        ),
        ("link/a.py", "import importlib\nimportlib.import_module('kvferry.engine')", "not below"),
        ("link/a.py", "__import__('kvferry.engine')", "not below"),
        (
            "link/a.py",
            "from importlib import import_module\nimport_module('..engine')",
            "not below",
        ),
        ("engine/a.py", "from ..testing import LeakCheck", "not below engine"),
        ("cli/a.py", "import kvferry.testing", "not below cli"),
        ("testing/a.py", "from ..bench import machine", "not below testing"),
        ("_core/__init__.py", "from ..errors import Error", "not below _core"),
        ("_core/core.pyx", "    from kvferry.errors import Error", "not below _core"),
        ("_core/copy.pxi", "from ..errors cimport Error, UsageError", "not below _core"),
        ("_core/core.pyx", "import kvferry.errors", "not below _core"),
        ("_core/core.pyi", "from kvferry.errors import Error", "not below _core"),
        ("transport/a.py", "", "kvferry.transport.a: stands in no row"),
        ("utils.py", "", "kvferry.utils: stands in no row"),
        ("rpc/a.py", "import os\nos.environ['HOME']", "reads the environment"),
        ("rpc/a.py", "from os import getenv", "reads the environment"),
        ("compat/hixl/hixl/variables.py", "import os\nos.environ['A']", "reads the environment"),
        ("compat/mooncake/mooncake/a.py", "from kvferry.bench import b", "not below compat"),
        ("engine/a.py", "from ..compat import offers", "not below engine"),
        ("rpc/a.py", "import pickle", "imports pickle"),
        ("rpc/a.py", "from marshal import loads", "imports marshal.loads"),
        ("submit/a.py", "", "submit: 1 source files, fewer than 3"),
    ],
)
def test_complains(file: str, text: str, complaint: str, tmp_path: Path) -> None:
    said = complaints(plant(tmp_path, {file: text}))
    assert any(complaint in sentence for sentence in said), said


def test_empty_folders_do_not_exist(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    assert complaints(tmp_path) == []
