"""The live page: one file, and what a browser is told that it may do."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["Page", "page"]

FILE = Path(__file__).with_name("page.html")
INLINE = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)


class Page(NamedTuple):
    body: bytes
    policy: str


@cache
def page() -> Page:
    """The style and the script of the file itself may act, and nothing else; nothing is fetched
    from elsewhere, and no other page frames it."""
    text = FILE.read_text("utf-8")
    parts = {kind: _hash(content) for kind, content in INLINE.findall(text)}
    policy = (
        f"default-src 'none'; style-src '{parts['style']}'; script-src '{parts['script']}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return Page(text.encode(), policy)


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
