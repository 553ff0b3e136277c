"""A picture as a terminal shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from rich import box
from rich.columns import Columns
from rich.console import Group
from rich.table import Table
from rich.text import Text

from . import words
from .picture import ChannelRow, NodeRow, PathRow, TenantRow, View

__all__ = ["drawn"]

STATES = {"alive": "green", "here": "green", "suspect": "yellow", "leaving": "cyan"}
BAR = 10  # characters


class Column(NamedTuple):
    """least: characters that a terminal has to be wide to show it; right: of numbers."""

    title: str
    cell: Callable[[Any], str | Text]
    least: int = 0
    right: bool = True


def drawn(view: View, width: int) -> Group:
    """All of it, the most important first; tables as wide as there is room for."""
    beside = [
        _table("tiers", TIERS, view.tiers, width),
        _table("misses by cause", CAUSES, view.misses, width),
        _table("left memory by cause", CAUSES, view.left, width),
        _table("bytes by path", PATHS, view.paths, width),
    ]
    nodes = _table("nodes", NODES, view.nodes, width)
    if view.hidden:
        nodes.caption = f"and {view.hidden} more"
    channels = _table("slowest channels", CHANNELS, view.channels, width)
    below = [channels] if view.channels else []
    tenants = _table("tenants", TENANTS, view.tenants, width)
    return Group(_head(view), nodes, Columns(beside, padding=(0, 3)), *below, tenants)


def _head(view: View) -> Text:
    totals = view.totals
    head = Text.assemble(
        ("kvferry ", "bold"),
        (words.plain(view.source), "bold cyan"),
        f"  {totals.answering}/{totals.nodes} nodes  hit rate ",
        (words.share(totals.hit_rate), "bold"),
        f"\n{words.rate(totals.reads)} hits/s  {words.rate(totals.absent)} misses/s"
        f"  {words.size(totals.read)}/s read  {words.size(totals.came)}/s in"
        f"  {words.rate(totals.evicted)} evicted/s",
    )
    if view.why:
        head.append(f"\n{words.plain(view.why)}", style="bold red")
    return head


def _table(title: str, columns: Iterable[Column], rows: Iterable[Any], width: int) -> Table:
    shown = [each for each in columns if each.least <= width]
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for each in shown:
        table.add_column(each.title, justify="right" if each.right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(each.cell(row) for each in shown))
    if not table.row_count:
        table.add_row("none")
    return table


def _name(text: str, style: str = "") -> Text:
    """Of a stranger's choice: neither markup nor anything that a terminal obeys."""
    return Text(words.plain(text), style=style)


def _bar(used: int, size: int) -> Text:
    filled = min(round(BAR * used / size), BAR) if size else 0
    return Text("━" * filled, style="cyan") + Text("━" * (BAR - filled), style="bright_black")


def _state(row: NodeRow) -> Text:
    return _name(row.state, STATES.get(row.state, "bold red"))


def _peer(row: ChannelRow) -> Text:
    return _name(row.peer, "bold red" if row.suspected else "")


def _path(row: PathRow) -> Text:
    return _name(row.path)


def _tenant(row: TenantRow) -> Text:
    return _name(row.name or "(own)")


NODES = [
    Column("node", lambda row: _name(row.address), right=False),
    Column("state", _state, right=False),
    Column("", lambda row: _bar(row.used, row.size), 170, right=False),
    Column("memory", lambda row: words.part(row.used, row.size)),
    Column("ssd", lambda row: words.part(row.ssd_used, row.ssd_size), 128),
    Column("objects", lambda row: words.count(row.objects), 136),
    Column("hit rate", lambda row: words.share(row.hit_rate)),
    Column("hits/s", lambda row: words.rate(row.reads), 76),
    Column("misses/s", lambda row: words.rate(row.absent), 100),
    Column("read/s", lambda row: words.size(row.read), 88),
    Column("in/s", lambda row: words.size(row.came), 146),
    Column("evicted/s", lambda row: words.rate(row.evicted), 112),
    Column("users", lambda row: words.count(row.users), 154),
]

TIERS = [
    Column("tier", lambda row: row.tier, right=False),
    Column("used", lambda row: words.part(row.used, row.size)),
    Column("objects", lambda row: words.count(row.objects), 70),
    Column("came/s", lambda row: words.rate(row.came), 60),
    Column("hits/s", lambda row: words.rate(row.hits)),
    Column("left/s", lambda row: words.rate(row.left)),
]

CAUSES = [
    Column("cause", lambda row: row.cause, right=False),
    Column("count", lambda row: words.count(row.sum)),
    Column("/s", lambda row: words.rate(row.rate)),
    Column("share", lambda row: words.share(row.share)),
]

PATHS = [
    Column("whose", lambda row: row.who, right=False),
    Column("path", _path, right=False),
    Column("", lambda row: row.direction, right=False),
    Column("bytes", lambda row: words.size(row.bytes)),
    Column("/s", lambda row: words.size(row.rate), 70),
]

CHANNELS = [
    Column("node", lambda row: _name(row.node), 100, right=False),
    Column("peer", _peer, right=False),
    Column("path", _path, 80, right=False),
    Column("", lambda row: row.direction, right=False),
    Column("transfers", lambda row: words.count(row.transfers), 110),
    Column("mean", lambda row: words.seconds(row.mean)),
    Column("longest", lambda row: words.seconds(row.longest)),
    Column("speed", lambda row: f"{words.size(row.speed)}/s", 70),
]

TENANTS = [
    Column("tenant", _tenant, right=False),
    Column("used of quota", lambda row: words.part(row.used, row.quota)),
    Column("objects", lambda row: f"{words.count(row.objects)} of {words.count(row.most)}", 90),
    Column("hit rate", lambda row: words.share(row.hit_rate)),
    Column("hits/s", lambda row: words.rate(row.reads)),
    Column("evicted/s", lambda row: words.rate(row.evicted), 80),
    Column("users", lambda row: words.count(row.users), 70),
]
