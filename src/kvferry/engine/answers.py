"""What a transfer was, asked five times, each answer with the counter it rests on. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..path import Addressing, LinkKind

if TYPE_CHECKING:
    from .report import Report

__all__ = ["Answer", "answers"]


class Answer(NamedTuple):
    """One question about a transfer, what is true of it, and the evidence."""

    question: str
    answer: str
    evidence: str


# How often a byte is copied on its way, staging not counted, and by whom.
_COPIES = {
    LinkKind.LOOPBACK: (1, "from memory to memory"),
    LinkKind.FABRIC: (1, "from memory to memory"),
    LinkKind.CMA: (1, "by the kernel, from memory to memory"),
    LinkKind.TCP: (2, "by the kernel, into socket buffers and out of them"),
    LinkKind.HIXL: (1, "by the vendor's engine, unless that stages by itself"),
}

_DIRECT = {
    LinkKind.TCP: "no: through the network stack",
    LinkKind.HIXL: "as the vendor's engine has it: it does not say",
}


def answers(report: Report) -> tuple[Answer, ...]:
    """One-sided, zero-copy, direct, mapped, and who submitted."""
    return (_one_sided(report), _zero_copy(report), _direct(report), _mapped(report), _who(report))


def _one_sided(report: Report) -> Answer:
    if report.path.link is LinkKind.HIXL:
        text = "yes: the peer's program called nothing; what its HIXL engine did is not told"
    elif report.served_bytes:
        text = "yes: the peer's program called nothing, its native threads moved their end"
    else:
        text = "yes: nothing ran at the peer"
    return Answer("one-sided", text, f"served_bytes {report.served_bytes}")


def _zero_copy(report: Report) -> Answer:
    copies, by = _COPIES[report.path.link]
    exact = copies == 1 and not report.staged_bytes
    text = f"{'yes' if exact else 'no'}: {_times(copies)} {by}"
    if report.staged_bytes:
        share = "all" if report.staged_bytes >= report.bytes else "some"
        text += f", {share} bytes once more through a pool"
    return Answer("zero-copy", text, f"staged_bytes {report.staged_bytes} of {report.bytes}")


def _direct(report: Report) -> Answer:
    text = _DIRECT.get(report.path.link, "yes: memory to memory on this host")
    return Answer("direct", text, f"link {report.path.link.value}")


def _mapped(report: Report) -> Answer:
    mapped = report.path.addressing is Addressing.MAPPED
    text = "yes: it lies in our address space" if mapped else "no: named by its owner's addresses"
    return Answer("mapped", text, f"addressing {report.path.addressing.value}")


def _who(report: Report) -> Answer:
    counters = {
        "the calling thread": ("inline_copies", report.inline_copies),
        "streams": ("stream_submissions", report.stream_submissions),
        "a coprocessor": ("coprocessor_batches", report.coprocessor_batches),
    }
    who = [name for name, (_, count) in counters.items() if count] or [_nobody(report)]
    evidence = ", ".join(f"{counter} {count}" for counter, count in counters.values())
    return Answer("submitted by", " and ".join(who), evidence)


def _nobody(report: Report) -> str:
    """Who submitted, where no counter says so."""
    return "the vendor's engine" if report.bytes else "nobody: it was empty"


def _times(copies: int) -> str:
    return "copied once" if copies == 1 else f"copied {copies} times"
