"""The live page in a browser: numbers that change, narrow and dark, by keyboard, and when nobody
answers."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from kvferry.store.seen import Snapshot
from kvferry.watch import url_of
from tests.watch.browser import Tab, browser
from tests.watch.pictures import HOSTILE, flow, node, part, snapshot, standing
from tests.watch.served import KEY, Pretended, served

pytestmark = pytest.mark.slow

LONG = "[2001:db8:85a3:8d3:1319:8a2e:370:7334]:26100"
CELL = "document.querySelector('#{} tbody tr:nth-child({}) > :nth-child({})').innerText"
WIDEST = """[...document.querySelectorAll("body *")].map((e) =>
    [e.getBoundingClientRect().right, e.tagName, e.id, e.textContent.slice(0, 30)])
    .sort((a, b) => b[0] - a[0]).slice(0, 3)"""
WIDE = "document.documentElement.scrollWidth <= innerWidth"


def busy(count: int, moment: float) -> Snapshot:
    own = part(300 * count, 100 * count, left={"evicted": 7 * count, "removed": 1})
    disk = {"size": 1 << 30, "bytes": 1 << 29, "objects": 5}
    flows = (flow(5 * count, 1000 * count, 0.1 * count, peer=LONG), flow(1, 2, 3.0, suspected=True))
    return snapshot(
        moment,
        node(HOSTILE, 1, own, tenants={"<i>red</i>": part(3, 1, ssd=disk)}, channels=flows),
        node(LONG, 0, part(), why=f"no reply {HOSTILE}", standing=standing(LONG, 9, "suspect")),
        *(node(f"10.0.0.{at}:26100", at, part(9 * count, count)) for at in range(2, 6)),
    )


@pytest.fixture(scope="module")
def chromium() -> Iterator[Callable[[str], Tab]]:
    # Not where a test may leave nothing: Chromium writes there all the time.
    folders = tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True)
    with folders as folder, browser(Path(folder)) as opened:
        yield opened


@pytest.fixture
def open_(chromium: Callable[[str], Tab]) -> Iterator[Callable[[str], Tab]]:
    with ExitStack() as stack:

        def opened(url: str) -> Tab:
            tab = chromium(url)
            stack.callback(tab.close)
            return tab

        yield opened


@pytest.fixture
def tab(open_: Callable[[str], Tab]) -> Iterator[Tab]:
    survey = Pretended()
    survey.seen = busy
    with served(survey) as server:
        tab = open_(url_of(server.page, KEY))
        tab.until("document.querySelectorAll('#nodes tbody tr').length === 6")
        yield tab


def test_it_shows_what_there_is_and_goes_on(tab: Tab) -> None:
    assert tab.says("location.pathname + location.search") == "/"  # the key is not in it
    assert tab.until("document.getElementById('state').innerText === 'live'")
    assert tab.says(CELL.format("misses", 1, 1)) == "never"
    assert tab.says(CELL.format("paths", 1, 1)) in ("users, read", "nodes, written")
    assert "evicted" in tab.says("document.getElementById('left').innerText")
    assert "it is silent" in tab.says("document.getElementById('channels').innerText")
    assert tab.says("document.getElementById('count').innerText") == "5 of 6 nodes answer"
    before = tab.says("document.getElementById('misses').innerText")
    tab.until(
        f"document.getElementById('misses').innerText !== {msgspec.json.encode(before).decode()}"
    )
    assert tab.says("document.querySelectorAll('svg.spark path.line[d^=M]').length") == 5
    assert tab.says("document.title").endswith("· kvferry")


def test_names_are_text_and_nothing_else(tab: Tab) -> None:
    shown = tab.says("[...document.querySelectorAll('#nodes th span')].map(s => s.textContent)")
    assert HOSTILE in shown
    assert tab.says("document.querySelectorAll('img, tbody i:not(.bar i), tbody b').length") == 0
    assert "<i>red</i>" in tab.says("document.getElementById('tenants').textContent")
    assert tab.says("document.title") != "taken"


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_and_everything_between(tab: Tab, dark: bool) -> None:
    for wide in (320, 360, 500, 700, 820, 1024, 1200, 1440, 1920):
        tab.width(wide, dark)
        assert tab.says(WIDE), f"at {wide}: {tab.says(WIDEST)}"
    tab.width(360, dark)
    ground = tab.says("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(18, 22, 26)" if dark else "rgb(246, 247, 248)")
    ends = "[...document.querySelectorAll('td, th')].map(c => c.getBoundingClientRect().right)"
    assert tab.says(f"Math.max(...{ends})") <= 360
    assert contrast(tab) >= 4.5


def contrast(tab: Tab) -> float:
    """The least of all text on its ground."""
    return float(tab.says(
        """(() => {
          const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map((v) => v / 255)
            .map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
            return .2126 * r + .7152 * g + .0722 * b; };
          const ground = (e) => { for (; e; e = e.parentElement) {
            const c = getComputedStyle(e).backgroundColor;
            if (c !== "rgba(0, 0, 0, 0)") return c; } };
          return Math.min(...[...document.querySelectorAll("body *")]
            .filter((e) => e.getClientRects().length && e.closest("svg, script") === null &&
              [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))
            .map((e) => { const a = light(getComputedStyle(e).color), b = light(ground(e));
              return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); }));
        })()"""
    ))  # fmt: skip


def test_everything_is_reached_by_keyboard(tab: Tab) -> None:
    tab.width(1440)
    reached = []
    for _ in range(16):
        tab.press("Tab", 9)
        reached.append(tab.says("document.activeElement.innerText"))
    assert reached[:3] == ["Skip to the nodes", "Pause", "Node"]
    assert "Evicted/s" in reached
    tab.says("document.getElementById('pause').focus()")
    tab.press("Enter", 13)
    assert tab.says("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
    still = tab.says("document.getElementById('at').innerText + document.body.innerText")
    tab.says("new Promise((done) => setTimeout(done, 300))")
    assert tab.says("document.getElementById('at').innerText + document.body.innerText") == still
    tab.says("document.querySelector('#nodes th:nth-child(7) button').focus()")
    tab.press("Enter", 13)
    assert tab.says("document.querySelector('#nodes th:nth-child(7)').ariaSort") == "descending"
    assert tab.says("document.activeElement.innerText") == "Hit rate"
    assert tab.says(
        "[...document.querySelectorAll('table')].every(t => t.caption.innerText && t.tHead)"
    )


def test_those_who_hear_it_hear_tables(tab: Tab) -> None:
    """Also where they are shown as cards."""
    tab.width(360)
    tree = tab.do("Accessibility.getFullAXTree")["nodes"]
    roles = [each["role"]["value"] for each in tree if not each.get("ignored")]
    assert roles.count("table") == 7
    assert roles.count("status") == 1
    names = {each.get("name", {}).get("value") for each in tree if each["role"]["value"] == "table"}
    assert "Misses by cause" in names
    assert roles.count("rowheader") >= 6


def test_it_says_when_nobody_answers_and_comes_back(open_: Callable[[str], Tab]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    at = f"127.0.0.1:{port}"
    with served(at=at) as server:
        tab = open_(url_of(server.page, KEY))
        tab.until("document.getElementById('state').innerText === 'live'")
    tab.until("document.getElementById('lost').innerText.includes('Connection lost at')")
    assert tab.says("document.getElementById('state').innerText") == "lost"
    assert tab.says("document.getElementById('lost').closest('[aria-live=polite]') !== null")
    assert tab.says("document.querySelector('#nodes tbody').innerText.includes('a:1')")
    with served(at=at):
        tab.until("document.getElementById('state').innerText === 'live'")
        assert tab.says("document.getElementById('lost').hidden")


def test_a_key_that_is_valid_no_more_is_told_of(open_: Callable[[str], Tab]) -> None:
    with served() as server:
        tab = open_(url_of(server.page, KEY))
        tab.until("document.getElementById('state').innerText === 'live'")
        tab.do("Network.clearBrowserCookies")
        tab.says("lose()")
        tab.until("document.getElementById('lost').innerText.includes('not valid any more')")
