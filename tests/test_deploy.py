"""What is told of deploying and operating: names that exist, limits that fit, all that happens."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer

from kvferry.cli.app import app
from kvferry.store import Answer, Cause
from kvferry.store.answers import Kind

ROOT = Path(__file__).parents[1]
DEPLOY, DOCS = ROOT / "deploy", ROOT / "docs"
PAGES = [DOCS / "deploy.md", DOCS / "operations.md"]
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
UNITS = sorted(DEPLOY.rglob("*.service")) + sorted(DEPLOY.glob("systemd/*.d/*.conf"))
MANIFESTS = sorted(DEPLOY.glob("kubernetes/*.yaml"))
RULES = DEPLOY / "prometheus" / "kvferry.rules.yaml"

COMMAND = re.compile(r"(?<![/\w-])(?<!-n )kvferry[ ,]+([a-z]+)\b(?=[ ,\]`\n])([^`\n#]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
SECTIONS = {"Unit", "Service", "Install"}
OBJECT = re.compile(r"^(apiVersion|kind|metadata):", re.MULTILINE)


@cache
def options() -> dict[str, set[str]]:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return {
        name: {"--help", *(word for param in command.params for word in param.opts)}
        for name, command in commands.items()
    }


def said(path: Path) -> Iterator[tuple[str, str]]:
    """Commands and what follows them; a line that goes on in a manifest is one."""
    text = path.read_text().replace("\\\n", " ")
    text = re.sub(r"\n +(?=--|- --)", " ", text)
    for found in COMMAND.finditer(text):
        yield found[1], found[2]


@pytest.mark.parametrize("path", [*PAGES, *FILES], ids=lambda path: path.name)
def test_commands_have_the_options_that_are_said(path: Path) -> None:
    known = options()
    for name, rest in said(path):
        if path in PAGES and name not in known and not OPTION.search(rest):
            continue  # the name within a sentence
        assert name in known, (name, rest)
        assert set(OPTION.findall(rest)) <= known[name], (name, rest)


def test_something_is_said() -> None:
    told = [name for path in [*PAGES, *FILES] for name, _ in said(path)]
    assert {"node", "directory", "top", "why", "explain", "doctor"} <= set(told)


@pytest.mark.parametrize("name", ["node", "directory"])
def test_variables_of_units_have_options(name: str) -> None:
    unit = (DEPLOY / "systemd" / f"kvferry-{name}.service").read_text()
    lines = [line for line in unit.splitlines() if line.startswith(("Environment=", "ExecStart="))]
    told = (DEPLOY / "systemd" / f"{name}.env").read_text()
    assert set(OPTION.findall(told + "\n".join(lines))) <= options()[name]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_are_read(path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(path.read_text())
    assert unit.sections()
    assert set(unit.sections()) <= SECTIONS
    assert unit["Service"]


def test_nobody_is_killed_within_the_grace() -> None:
    unit = (DEPLOY / "systemd" / "kvferry-node.service").read_text()
    assert number(r"TimeoutStopSec=(\d+)", unit) > number(r"GRACE=(\d+)", unit)
    told = (DEPLOY / "systemd" / "node.env").read_text()
    assert number(r"TimeoutStopSec=(\d+)", unit) > number(r"GRACE=(\d+)", told)
    pods = (DEPLOY / "kubernetes" / "node.yaml").read_text()
    assert number(r"terminationGracePeriodSeconds: (\d+)", pods) > number(r"--grace (\d+)", pods)


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found, pattern
    return int(found[1])


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_whole(path: Path) -> None:
    text = path.read_text()
    assert "\t" not in text
    for document in text.split("\n---\n"):
        kinds = set(OBJECT.findall(document))
        wanted = {"apiVersion", "kind"} | ({"metadata"} if path.stem != "kustomization" else set())
        assert wanted <= kinds, document
        mounted = set(re.findall(r"name: ([\w-]+), mountPath", document))
        there = set(re.findall(r"^ +- name: ([\w-]+)\n +(?:hostPath|emptyDir):", document, re.M))
        assert mounted == there


def test_rules_name_series_and_values_that_there_are() -> None:
    rules, metrics = RULES.read_text(), (DOCS / "metrics.md").read_text()
    series = set(re.findall(r"^\| `(kvferry_\w+)` \|", metrics, re.M))
    assert set(re.findall(r"\bkvferry_\w+", rules)) <= series
    for values in re.findall(r"\{\w+=~?\"([\w|]+)\"\}", rules):
        for value in values.split("|"):
            assert f"`{value}`" in metrics


def test_pages_name_series_that_there_are() -> None:
    metrics = (DOCS / "metrics.md").read_text()
    for page in PAGES:
        for name in set(re.findall(r"`(kvferry_\w+)`", page.read_text())):
            assert f"| `{name}` |" in metrics, name


def test_every_alert_is_told_of() -> None:
    alerts = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    assert alerts == set(re.findall(r"`(Kvferry\w+)`", section("Alerts")))


def test_every_cause_is_told_of() -> None:
    causes = {cause.name.lower() for cause in Cause if cause is not Cause.PRESENT}
    assert causes == rows(section("Misses, by cause"))


def test_every_refusal_is_told_of() -> None:
    refused = {each.name.lower() for each in Answer if each.kind is Kind.REFUSED}
    assert refused - {"unknown"} == rows(section("Refusals"))  # of attempts, which users never see


def test_errors_told_of_are_raised() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src" / "kvferry").rglob("*.py"))
    for cause in rows(section("Errors")):
        assert f'"{cause}"' in source, cause


def section(title: str) -> str:
    return (DOCS / "operations.md").read_text().split(f"## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> set[str]:
    firsts = re.findall(r"^\| (`[^|]*) \|", text, re.M)
    return {name for first in firsts for name in re.findall(r"`(\w+)`", first)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        file, _, anchor = target.partition("#")
        path = page.parent / file if file else page
        assert path.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.+)$", path.read_text(), re.M)
            marks = {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}
            assert anchor in marks, target
