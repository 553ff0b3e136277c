"""How the admin's HTTP answers look."""

from __future__ import annotations

from typing import Any

import msgspec

from ..web import Answer

__all__ = [
    "ILLEGAL_CLIENT",
    "INTERNAL",
    "INVALID_PARAMS",
    "JOB_NOT_FOUND",
    "NOT_SUPPORTED",
    "OBJECT_NOT_FOUND",
    "PROMETHEUS",
    "SEGMENT_NOT_FOUND",
    "UNAVAILABLE_IN_CURRENT_MODE",
    "UNAVAILABLE_IN_CURRENT_STATUS",
    "json",
    "refusal",
    "text",
]

# Status, code and name of what cannot be answered.
INTERNAL = (500, -1, "INTERNAL_ERROR")
SEGMENT_NOT_FOUND = (404, -101, "SEGMENT_NOT_FOUND")
INVALID_PARAMS = (400, -600, "INVALID_PARAMS")
ILLEGAL_CLIENT = (401, -601, "ILLEGAL_CLIENT")
OBJECT_NOT_FOUND = (404, -704, "OBJECT_NOT_FOUND")
UNAVAILABLE_IN_CURRENT_STATUS = (503, -1010, "UNAVAILABLE_IN_CURRENT_STATUS")
UNAVAILABLE_IN_CURRENT_MODE = (409, -1011, "UNAVAILABLE_IN_CURRENT_MODE")
NOT_SUPPORTED = (501, -1012, "NOT_SUPPORTED")
JOB_NOT_FOUND = (404, -1402, "JOB_NOT_FOUND")

TEXT = "text/plain; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4"


def json(said: Any, status: int = 200) -> Answer:
    return Answer(status, msgspec.json.encode(said))


def text(said: str, status: int = 200) -> Answer:
    return Answer(status, said.encode("utf-8", "replace"), TEXT)


def refusal(kind: tuple[int, int, str], why: str = "") -> Answer:
    """With the name of the code, or with a better reason."""
    status, code, name = kind
    return json({"success": False, "error_code": code, "error_message": why or name}, status)
