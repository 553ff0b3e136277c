"""Who may see it: those who hold the key that follows from the token. Pure."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from enum import Enum
from urllib.parse import parse_qs, urlsplit

__all__ = ["Verdict", "cookie_for", "judge", "key_of", "url_of"]

PURPOSE = b"kvferry watch"
MOST = 128  # characters of what is compared

BEARER = re.compile(r"Bearer +([!-~]+) *", re.IGNORECASE)


class Verdict(Enum):
    """admitted  the key came along
    enters    it stands in the address: to be put into a cookie
    unknown   there was none
    refused   there was another one
    """

    ADMITTED = "admitted"
    ENTERS = "enters"
    UNKNOWN = "unknown"
    REFUSED = "refused"


def key_of(derive: Callable[[bytes], bytes]) -> str:
    """The key, by Engine.derive or another one's."""
    return derive(PURPOSE).hex()


def url_of(page: str, key: str) -> str:
    """What to open in a browser; holds the key."""
    return f"{page}/?key={key}"


def cookie_for(port: int, key: str) -> str:
    """A cookie that no script reads and no other site sends; hosts have one jar for all ports."""
    return f"{_name(port)}={key}; Path=/; HttpOnly; SameSite=Strict"


def judge(key: str, port: int, target: str, authorization: str, cookies: str) -> Verdict:
    """target  path and query, as they were asked for
    authorization, cookies  headers; "": there were none
    """
    asked = _in_query(target)
    if asked is not None:
        return Verdict.ENTERS if _same(asked, key) else Verdict.REFUSED
    shown = [*_in_cookies(port, cookies), *_borne(authorization)]
    if True in [_same(each, key) for each in shown]:  # all of them, whichever it is
        return Verdict.ADMITTED
    return Verdict.REFUSED if shown else Verdict.UNKNOWN


def _same(shown: str, key: str) -> bool:
    return hmac.compare_digest(shown[:MOST].encode(errors="replace"), key.encode())


def _in_query(target: str) -> str | None:
    try:
        found = parse_qs(urlsplit(target).query, max_num_fields=8).get("key")
    except ValueError:
        return ""
    return None if found is None else found[0]


def _in_cookies(port: int, cookies: str) -> list[str]:
    pairs = [pair.strip().partition("=") for pair in cookies.split(";")]
    return [value for name, _, value in pairs if name == _name(port)]


def _borne(authorization: str) -> list[str]:
    if not authorization:
        return []
    found = BEARER.fullmatch(authorization)
    return [found[1] if found else ""]


def _name(port: int) -> str:
    return f"kvferry_{port}"
