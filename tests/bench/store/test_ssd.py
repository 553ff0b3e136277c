"""A short run over a log and plain files."""

from __future__ import annotations

from pathlib import Path

from kvferry.bench.store.ssd import measure_ssd
from kvferry.bench.store.ssd_table import legend, ssd_table

MIB = 1 << 20


def test_a_short_run(tmp_path: Path) -> None:
    found = measure_ssd(tmp_path, 22 * MIB, segment=11 * MIB)
    assert [row.name for row in found.rows] == ["append", "read on", "read one", "scan"]
    assert all(row.verified and row.ours > 0 and row.plain > 0 for row in found.rows)
    assert found.bytes == 22 * MIB
    assert list(tmp_path.iterdir()) == []
    assert ssd_table(found.rows).row_count == 4
    assert str(tmp_path) in legend(found)
