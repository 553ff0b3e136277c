"""What is asked for and which objects it is about, before any process is there."""

from __future__ import annotations

import sys
from itertools import islice

import numpy as np
import pytest

from kvferry.bench.store import Rival, parse_rivals
from kvferry.bench.store.memory import count_resident
from kvferry.bench.store.passes import Ground, keeping, passes
from kvferry.bench.store.tasks import TASKS, Figure, Op, Role, Task, Wanted
from kvferry.errors import UsageError

MIB = 1 << 20
SMAPS = """\
1000-3000 rw-p 00000000 00:00 0 [heap]
Size:                  8 kB
Rss:                   4 kB
Pss:                   4 kB
3000-9000 rw-s 00000000 00:01 77 /memfd:kvferry (deleted)
Size:                 24 kB
Rss:                  16 kB
a000-b000 r--s 00000000 00:01 78 /memfd:kvferry (deleted)
Rss:                   2 kB
"""


def test_a_rival_is_a_name_and_a_python() -> None:
    assert parse_rivals(["mooncake", "redis=/opt/bin/python"]) == (
        Rival("mooncake", sys.executable),
        Rival("redis", "/opt/bin/python"),
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nixl"], "unknown store 'nixl': know compat, mooncake, redis"),
        (["redis", "redis=/x"], "twice"),
    ],
)
def test_what_is_no_rival_is_refused(words: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_rivals(words)


def test_times_are_bounded_above_and_all_else_below() -> None:
    assert Wanted(Figure.P50, 6).met(6.0)
    assert not Wanted(Figure.P50, 6).met(6.1)
    assert Wanted(Figure.MKEYS, 2).met(2.0)
    assert not Wanted(Figure.OF_LIMIT, 0.85).met(0.84)


def test_a_mapped_user_is_wanted_to_be_as_fast_as_the_node() -> None:
    for task in TASKS:
        if Role.MAPPED in task.roles:
            assert task.wants(Role.MAPPED) == (*task.wanted, Wanted(Figure.OF_EMBEDDED, 0.9))
            assert task.wants(Role.EMBEDDED) == task.wanted
        assert task.wants(Role.RIVAL) == ()


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_a_pass_reads_what_is_kept_and_puts_what_is_new(task: Task) -> None:
    ground = Ground.of(task.block, 32 * MIB)
    kept = np.concatenate([calls.numbers for calls in keeping(ground, 128)])
    assert kept.tolist() == list(range(ground.kept))
    seen: set[int] = set()
    for era in (0, 1):
        for calls in islice(passes(task, ground, era), 3):
            assert len(calls.numbers) % calls.batch == 0
            assert len(set(calls.slots.tolist())) == len(calls.slots)
            assert calls.slots.max() < ground.total
            if task.op in (Op.PUT, Op.PUT_BATCH):
                assert (calls.sources == calls.slots).all()
                assert calls.numbers.min() >= ground.kept
                assert seen.isdisjoint(calls.numbers.tolist())
                seen.update(calls.numbers.tolist())
            else:
                assert set(calls.numbers.tolist()) <= set(kept.tolist())
                assert calls.absent.numbers.min() > 1 << 40


def test_the_pool_does_not_count_as_memory_beside_it() -> None:
    assert count_resident(SMAPS, 0x3000, 0x9000) == 6 << 10
    assert count_resident(SMAPS, 0x20000, 0x30000) == 22 << 10
