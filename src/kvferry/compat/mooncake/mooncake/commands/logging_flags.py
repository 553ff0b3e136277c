"""Flags of the log that every command of the original takes."""

from __future__ import annotations

import logging

from .flags import Flag, Flags

__all__ = ["LOGGING", "log_as", "tell_idle"]

ELSEWHERE = "the log goes to standard error"
LEVELS = (logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)

LOGGING = (
    Flag("minloglevel", "int32", 0, "0: everything, 1: from warnings on, 2: errors, 3: fatal ones"),
    Flag("logtostderr", "bool", True, "", ELSEWHERE),
    Flag("alsologtostderr", "bool", False, "", ELSEWHERE),
    Flag("stderrthreshold", "int32", 2, "", ELSEWHERE),
    Flag("log_dir", "string", "", "", ELSEWHERE),
    Flag("log_link", "string", "", "", ELSEWHERE),
    Flag("log_prefix", "bool", True, "", "every line has a time before it"),
    Flag("colorlogtostderr", "bool", False, "", "lines have no colour"),
    Flag("max_log_size", "int32", 1800, "", ELSEWHERE),
    Flag("logbufsecs", "int32", 30, "", "lines are written at once"),
    Flag("logbuflevel", "int32", 0, "", "lines are written at once"),
    Flag("stop_logging_if_full_disk", "bool", False, "", ELSEWHERE),
    Flag("v", "int32", 0, "", "there are no such levels"),
    Flag("vmodule", "string", "", "", "there are no such levels"),
    Flag("mmap_arena_pool_size", "uint64", 8 << 30, "", "memory is mapped as it is needed"),
    Flag("use_mmap_arena_allocator", "bool", False, "", "memory is mapped as it is needed"),
)


def log_as(flags: Flags) -> None:
    """Lines of the whole process, to standard error."""
    level = LEVELS[min(max(flags.number("minloglevel"), 0), len(LEVELS) - 1)]
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s")


def tell_idle(logger: logging.Logger, known: tuple[Flag, ...], flags: Flags) -> None:
    """One line for each flag that was given and changes nothing, and for words that are none."""
    for flag in known:
        if flag.idle and flag.name in flags.given:
            logger.warning("--%s has no effect: %s", flag.name, flag.idle)
    for word in flags.strays:
        logger.warning("%r belongs to no flag (write --flag=value)", word)
