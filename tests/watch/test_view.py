"""A picture made of two snapshots, and the terminal that shows it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kvferry.store.messages import Looked
from kvferry.store.seen import Part, parts_of
from kvferry.watch import view_of, words
from kvferry.watch.terminal import drawn
from tests.watch.pictures import HOSTILE, flow, node, part, snapshot, standing


def test_rates_are_of_the_time_between() -> None:
    before = snapshot(10.0, node(own=part(100, 100)))
    after = snapshot(12.0, node(own=part(160, 120, left={"evicted": 12, "removed": 1})))
    seen = view_of(before, after, 12.5)
    assert (seen.span, seen.age) == (2.0, 0.5)
    assert (seen.totals.reads, seen.totals.absent, seen.totals.read) == (30.0, 10.0, 300.0)
    assert seen.totals.hit_rate == 0.75
    assert seen.nodes[0].evicted == seen.totals.evicted == 6.0 - 1.0
    (path,) = seen.paths
    assert (path.who, path.path, path.direction, path.bytes, path.rate) == (
        *("users", "tcp", "read"),
        *(1600, 300.0),
    )
    evicted, removed = seen.left
    assert (evicted.cause, evicted.sum, evicted.rate) == ("evicted", 12, 5.0)
    assert (removed.sum, removed.rate) == (1, 0.0)


def test_the_first_picture_has_sums_and_no_rates() -> None:
    seen = view_of(None, snapshot(1.0, node(own=part(3, 1))), 1.0)
    assert seen.totals.hit_rate == 0.75
    assert (seen.span, seen.totals.reads, seen.paths[0].rate) == (0.0, 0.0, 0.0)


def test_who_began_anew_counts_from_nothing() -> None:
    before = snapshot(1.0, node(epoch=1, own=part(1000, 1000)))
    after = snapshot(2.0, node(epoch=2, own=part(5, 5), channels=(flow(9, 900, 1.0),)))
    seen = view_of(before, after, 2.0)
    assert (seen.totals.reads, seen.totals.absent) == (0.0, 0.0)
    assert all(row.rate == 0.0 for row in seen.paths)


def test_who_does_not_answer_is_shown_first_and_counts_nothing() -> None:
    silent = node("z:1", 0, part(), why="no reply in time")
    missing = node("b:1", 0, why="gone", standing=standing("b:1", 7, "suspect"))
    seen = view_of(None, snapshot(1.0, node("a:1"), silent, missing), 1.0)
    told = [(row.address, row.state) for row in seen.nodes]
    assert told == [("b:1", "suspect"), ("z:1", "silent"), ("a:1", "alive")]
    assert (seen.totals.nodes, seen.totals.answering) == (3, 1)


def test_tenants_have_their_quota_over_all_nodes() -> None:
    own = {"red": part(8, 2), "blue": part()}
    seen = view_of(None, snapshot(1.0, node("a:1", 1, tenants=own), node("b:1", 2)), 1.0)
    rows = {row.name: (row.nodes, row.quota, row.used, row.hit_rate) for row in seen.tenants}
    assert rows == {
        "": (2, 2000, 1500, None),
        "blue": (1, 1000, 750, None),
        "red": (1, 1000, 750, 0.8),
    }
    assert seen.totals.size == 4000


def test_the_slowest_channels_of_late_come_first() -> None:
    before = snapshot(1.0, node(channels=(flow(10, 1000, 10.0),)))
    fast = flow(110, 3000, 10.5)  # 5 ms each, lately
    slow = flow(2, 50, 0.1, peer="c:1")
    silent = flow(1, 1, 1e-6, peer="d:1", suspected=True)
    seen = view_of(before, snapshot(2.0, node(channels=(fast, slow, silent))), 2.0)
    assert [row.peer for row in seen.channels] == ["d:1", "c:1", "b:1"]
    assert seen.channels[2].mean == pytest.approx(0.005)
    assert seen.channels[2].speed == pytest.approx(4000)
    assert seen.channels[2].transfers == 110
    between = next(row for row in seen.paths if row.who == "nodes")
    assert (between.bytes, between.rate) == (3051, 2051.0)


def test_a_disk_is_a_tier() -> None:
    disk = {"size": 900, "bytes": 400, "objects": 4, "hits": 7, "written": 9, "evicted": 1}
    before = snapshot(1.0, node(own=part(ssd={**disk, "hits": 5})))
    memory, ssd = view_of(before, snapshot(2.0, node(own=part(ssd=disk))), 2.0).tiers
    assert (memory.size, memory.used, memory.objects) == (1000, 750, 3)
    assert (ssd.size, ssd.used, ssd.objects, ssd.hits) == (900, 400, 4, 2.0)


def test_very_many_nodes_are_not_all_shown() -> None:
    seen = view_of(None, snapshot(1.0, *(node(f"a:{at}", at) for at in range(1, 301))), 1.0)
    assert (len(seen.nodes), seen.hidden, seen.totals.nodes) == (200, 100, 300)


def text_of(width: int, *nodes: object, why: str = "") -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    seen = view_of(snapshot(0.0), snapshot(1.0, *nodes, why=why), 1.0)  # type: ignore[arg-type]
    console.print(drawn(seen, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [50, 80, 180])
def test_a_terminal_shows_all_of_it(width: int) -> None:
    own = {"red": part(8, 2)}
    shown = text_of(width, node(tenants=own, channels=(flow(1, 5, 0.5),)), why="no_directory")
    for word in ("a:1", "80.0%", "never", "evicted", "tcp", "red", "memory", "no_directory"):
        assert word in shown


def test_a_strangers_name_is_neither_obeyed_nor_markup() -> None:
    shown = text_of(200, node(HOSTILE, tenants={"[red]x[/red]": part()}))
    assert "\x1b" not in shown
    assert "[bold]" in shown
    assert "[red]x[/red]" in shown


def test_a_strangers_numbers_are_shown_whatever_they_are() -> None:
    most = (1 << 64) - 1
    figures = {
        "usage": {"capacity": 1, "free": most, "count": -5},
        "reads": {"hits": most, "absent": -most},
        "misses": {"never": -1, "expired": 1},
        "ssd": {"size": 1, "bytes": most},
        "tenant x": {"usage.capacity": 1, "usage.free": most},
    }
    own, tenants = parts_of(Looked(figures))
    hostile = node(own=own, tenants=tenants, channels=(flow(most, most, float("nan")),))
    assert "never" not in text_of(200, hostile)
    usage = {"capacity": 1, "free": 0, "count": 1}
    assert "a:1" in text_of(200, node(own=Part(usage=usage, ssd={"size": 1, "bytes": most})))


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (words.size(0), "0 B"),
        (words.size(1023), "1023 B"),
        (words.size(1 << 20), "1.0 MiB"),
        (words.count(9999), "9999"),
        (words.count(10_000), "10.0k"),
        (words.count(999_960), "1.0M"),
        (words.rate(0.04), "0.0"),
        (words.share(None), "–"),
        (words.part(512 << 20, 1 << 30), "512.0 MiB of 1.0 GiB"),
        (words.part(1 << 20, 2 << 20), "1.0 of 2.0 MiB"),
        (words.part(0, 0), "–"),
        (words.seconds(0.0000015), "2 µs"),
        (words.seconds(0.25), "250.0 ms"),
    ],
)
def test_numbers_in_words(shown: str, wanted: str) -> None:
    assert shown == wanted
