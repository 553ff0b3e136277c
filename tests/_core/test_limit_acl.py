"""Functions of ACL that return at once, under the real mover."""

from __future__ import annotations

import numpy as np
import pytest

from kvferry import _core

NOWHERE = 1 << 40


def descriptors(count: int) -> _core.Descriptors:
    rows = np.array([(NOWHERE + 64 * i, 2 * NOWHERE + 64 * i, 64) for i in range(count)], np.uint64)
    return _core.Descriptors(rows)


@pytest.mark.parametrize("count", [1, 1919, 1920, 1921, 5000])
def test_a_run_ends_and_its_flag_is_set(count: int) -> None:
    words = np.array([1, 0], np.uint64)
    one, flag = words.ctypes.data, words.ctypes.data + 8
    engines = _core.CopyEngines(1)
    mover = _core.AclMover(_core.acl_instant(), 1, 1, _core.SpanTable(), flag, one)
    done, d = _core.Done(engines), descriptors(count)
    d.via(mover)
    engines.copy_inline(_core.WRITE, d, done)
    assert (done.quiet, done.outcome, done.code) == (True, _core.OK, 0)
    assert words.tolist() == [1, 1]
    assert done.staged == d.bytes  # of no alias: the library would stage them
    assert not mover.failed


def test_a_bare_loop_counts_nanoseconds() -> None:
    calls, d = _core.acl_instant(), descriptors(100)
    assert _core.acl_submit(calls, d, 4, 10) > 0
    assert _core.acl_submit(calls, d, 1, 0) >= 0
