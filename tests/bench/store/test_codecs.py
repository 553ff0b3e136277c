"""What codecs make of KV blocks, measured for no time at all."""

from __future__ import annotations

import pytest

from kvferry.bench.store import codecs
from kvferry.bench.store.codecs_table import COLUMNS, codecs_table


def test_a_row_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "BLOCKS", 2)
    monkeypatch.setattr(codecs, "ROUNDS", 1)
    found = codecs.measure_codecs(0)
    assert found.verified
    rows = {(row.blocks, row.codec): row for row in found.rows}
    assert len(rows) == len(found.rows) == 14
    assert rows["text", "zstd 3"].ratio > 2
    assert rows["text", "zstd 3"].max_error == 0
    for kind in ("kv f16", "kv bf16"):
        assert rows[kind, "int8"].ratio == rows[kind, "fp8"].ratio == 1.598
        assert 0 < rows[kind, "int8"].mean_error < rows[kind, "fp8"].mean_error < 1 / 16
        assert rows[kind, "int8"].mean_error < rows[kind, "int8, a scale a head"].mean_error
    assert all(row.encode_gbps > 0 and row.decode_gbps > 0 for row in found.rows)
    table = codecs_table(found.rows)
    assert (table.row_count, len(table.columns)) == (14, len(COLUMNS))
