"""Numbers and names as a terminal shows them. Pure."""

from __future__ import annotations

__all__ = ["count", "part", "plain", "rate", "seconds", "share", "size"]

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
SHORT = ("", "k", "M", "G", "T")
LONGEST = 64  # characters of a name


def plain(text: str) -> str:
    """What a stranger may have named, without what a terminal would obey."""
    shown = "".join(each if each.isprintable() else "�" for each in text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


def size(bytes: float) -> str:
    at = 0
    while bytes >= 1023.95 and at + 1 < len(UNITS):
        bytes, at = bytes / 1024, at + 1
    return f"{bytes:.0f} {UNITS[at]}" if at == 0 else f"{bytes:.1f} {UNITS[at]}"


def count(number: float) -> str:
    if number < 10_000:
        return f"{number:.0f}"
    at = 0
    while number >= 999.95 and at + 1 < len(SHORT):
        number, at = number / 1000, at + 1
    return f"{number:.1f}{SHORT[at]}"


def rate(number: float) -> str:
    return f"{number:.1f}" if 0 < number < 10 else count(number)


def share(number: float | None) -> str:
    return "–" if number is None else f"{100 * number:.1f}%"


def part(used: int, whole: int) -> str:
    """ "10.3 of 44.0 MiB"."""
    if not whole:
        return "–"
    little, unit = size(used).split(" ")
    told = size(whole)
    return f"{little} of {told}" if told.endswith(f" {unit}") else f"{little} {unit} of {told}"


def seconds(number: float) -> str:
    if number < 1e-3:
        return f"{number * 1e6:.0f} µs"
    return f"{number * 1e3:.1f} ms" if number < 1 else f"{number:.1f} s"
