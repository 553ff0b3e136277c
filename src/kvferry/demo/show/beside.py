"""The store's node, seen from beside: what was read of it, whether it lives, its page."""

from __future__ import annotations

import webbrowser
from collections import Counter
from contextlib import suppress

from ...store.survey import Survey
from ..serving.node import Node

__all__ = ["node_troubles", "open_page", "read_so_far"]

READ = ".read"


def read_so_far(address: str) -> dict[str, int]:
    """Bytes that users read of it, by the link they took. Of a node that is gone: nothing."""
    read: Counter[str] = Counter()
    with Survey(address) as survey:
        for node in survey.take().nodes:
            for way, count in node.own.traffic.items():
                if way.endswith(READ):
                    read[way.removesuffix(READ)] += count
    return dict(read)


def node_troubles(node: Node) -> list[str]:
    status = node.process.poll()
    return [] if status is None else [f"the store's node ended on the way, with status {status}"]


def open_page(url: str) -> None:
    """Where there is a browser with a window; one of a terminal would take this one."""
    with suppress(webbrowser.Error):
        browser = webbrowser.get()
        if type(browser) is not webbrowser.GenericBrowser:
            browser.open(url)
