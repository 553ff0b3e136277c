"""What Prometheus is told: docs/metrics.md, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed
from prometheus_client.parser import text_string_to_metric_families as parsed_as_of_old

from kvferry.store.seen import Snapshot
from kvferry.watch.metrics import text_of
from kvferry.watch.series import COUNTERS, GAUGES
from tests.watch.pictures import HOSTILE, flow, node, part, snapshot

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"\| `(kvferry_\w+)` \| (gauge|counter) \| (\w*) \| (.*?) \| (.*) \|")

FULL = part(3, 1, ssd=dict.fromkeys(
    ["size", "bytes", "live", "objects", "behind", "paused", "direct", "hits", "hit_bytes",
     "written", "written_bytes", "evicted", "demoted", "lost", "too_large", "corrupt",
     "unreadable"], 7))  # fmt: skip


def whole() -> Snapshot:
    """In which every series has a value."""
    seen = snapshot(
        5.0, node(HOSTILE, own=FULL, tenants={"red": part()}, channels=(flow(1, 2, 0.5),))
    )
    more = dict.fromkeys(["places", "lacking", "telling", "beyond", "full"], 1)
    return Snapshot(
        **{name: getattr(seen, name) for name in seen.__struct_fields__}
        | {"directory": {**seen.directory, **more}}
    )


def test_the_table_of_the_docs_is_what_is_served() -> None:
    _, text = text_of(whole(), "")
    served = {}
    for family in parsed(text.decode()):
        assert family.samples, f"{family.name} has no value"
        labels = {tuple(sorted(each.labels)) for each in family.samples}
        total = "_total" if family.type == "counter" else ""
        served[family.name + total] = (family.type, family.unit, labels.pop(), family.documentation)
        assert not labels
    told = {
        name: (kind, unit, tuple(sorted(re.findall(r"\w+", labels))), meaning)
        for name, kind, unit, labels, meaning in ROW.findall(DOCS.read_text())
    }
    assert told == served
    assert len(served) == len(GAUGES) + len(COUNTERS)


def test_values_and_labels_come_through_whoever_named_them() -> None:
    _, text = text_of(whole(), "")
    found = {family.name: family for family in parsed(text.decode())}
    (read,) = [each for each in found["kvferry_read_bytes"].samples if not each.labels["tenant"]]
    assert (read.name, read.labels["node"], read.value) == ("kvferry_read_bytes_total", HOSTILE, 30)
    causes = {each.labels["cause"]: each.value for each in found["kvferry_left_objects"].samples}
    assert causes == {"evicted": 2, "removed": 1}
    assert {each.labels["tenant"] for each in found["kvferry_memory_size_bytes"].samples} == {
        "",
        "red",
    }


def test_who_knows_the_older_text_alone_gets_that() -> None:
    kind, text = text_of(whole(), "text/plain")
    assert kind.startswith("text/plain")
    names = {family.name for family in parsed_as_of_old(text.decode())}
    assert "kvferry_read_bytes" in names


def test_who_did_not_answer_has_no_figures() -> None:
    seen = snapshot(1.0, node("a:1"), node("b:1", 0, part(), why="gone"), why="no_directory")
    found = {family.name: family.samples for family in parsed(text_of(seen, "")[1].decode())}
    assert [(each.labels["node"], each.value) for each in found["kvferry_node_up"]] == [
        ("a:1", 1),
        ("b:1", 0),
    ]
    assert {each.labels["node"] for each in found["kvferry_users"]} == {"a:1"}
    assert found["kvferry_complete"][0].value == 0
