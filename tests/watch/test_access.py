"""Who may see the page, decided from what a request shows."""

from __future__ import annotations

import pytest

from kvferry.watch.access import Verdict, cookie_for, judge

KEY = "0123456789abcdef" * 2
PORT = 8080
COOKIE = f"kvferry_{PORT}={KEY}"


@pytest.mark.parametrize(
    ("target", "authorization", "cookies", "verdict"),
    [
        ("/", "", "", Verdict.UNKNOWN),
        ("/metrics", "", "other=1; kvferry_1=x", Verdict.UNKNOWN),
        ("/", "", COOKIE, Verdict.ADMITTED),
        ("/", "", f"a=b;  {COOKIE} ; c", Verdict.ADMITTED),
        ("/live", f"Bearer {KEY}", "", Verdict.ADMITTED),
        ("/live", f"bearer  {KEY} ", "", Verdict.ADMITTED),
        ("/", f"Bearer {KEY}", f"kvferry_{PORT}=old", Verdict.ADMITTED),
        ("/", f"Basic {KEY}", "", Verdict.REFUSED),
        ("/", f"Bearer {KEY}x", "", Verdict.REFUSED),
        ("/", f"Bearer {KEY[:-1]}", "", Verdict.REFUSED),
        ("/", "Bearer", "", Verdict.REFUSED),
        ("/", "", f"kvferry_{PORT}=", Verdict.REFUSED),
        ("/", "", f"kvferry_{PORT}={KEY.upper()}", Verdict.REFUSED),
        (f"/?key={KEY}", "", "", Verdict.ENTERS),
        (f"/?key={KEY}&a=b", "", COOKIE, Verdict.ENTERS),
        ("/?key=x", "", COOKIE, Verdict.REFUSED),
        ("/?key=", "", "", Verdict.UNKNOWN),  # there is none in it
        ("/?key=%ff%00", "", "", Verdict.REFUSED),
        ("/?key=\ud800", "", "", Verdict.REFUSED),
        ("//[?key=x", "", "", Verdict.REFUSED),
        ("/?" + "&".join(f"a{at}=1" for at in range(99)), "", COOKIE, Verdict.REFUSED),
        ("/", "Bearer " + "k" * 5000, "", Verdict.REFUSED),
    ],
)
def test_judge(target: str, authorization: str, cookies: str, verdict: Verdict) -> None:
    assert judge(KEY, PORT, target, authorization, cookies) is verdict


def test_the_cookie_is_for_no_script_and_no_other_site() -> None:
    made = cookie_for(PORT, KEY)
    assert judge(KEY, PORT, "/", "", made.split(";")[0]) is Verdict.ADMITTED
    assert "HttpOnly" in made
    assert "SameSite=Strict" in made
