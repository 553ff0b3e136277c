from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from kvferry import UsageError
from kvferry.bench import trace
from kvferry.bench.trace import forever, read_trace


def line(*ids: int) -> bytes:
    request = {"timestamp": 0, "input_length": 512 * len(ids), "output_length": 3}
    return json.dumps({**request, "hash_ids": ids}).encode() + b"\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def to_file(content: bytes) -> Path:
        file = tmp_path / "trace"
        file.write_bytes(content)
        return file

    return to_file


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_reads_plain_and_compressed(
    pack: Callable[[bytes], bytes], write: Callable[[bytes], Path]
) -> None:
    file = write(pack(line(0, 1) + b"\n" + line() + line(0, 7)))
    assert [request.hash_ids for request in read_trace(file)] == [[0, 1], [], [0, 7]]
    assert [list(ids) for ids in islice(forever(file), 3)] == [[0, 1], [0, 7], [0, 1]]


@pytest.mark.parametrize(
    "bad",
    [
        b"{\n",
        b"[]\n",
        b'{"timestamp": 0}\n',
        line(-1),
        line(1 << 63),
        line(1).replace(b"1]", b'"1"]'),
        b"\xff\xfe\n",
        line(1).replace(b"timestamp", b"\xff\xfe"),
    ],
)
def test_says_which_line_is_bad(bad: bytes, write: Callable[[bytes], Path]) -> None:
    requests = read_trace(write(line(1) + line(2) + bad))
    assert [request.hash_ids for request in islice(requests, 2)] == [[1], [2]]
    with pytest.raises(UsageError, match="line 3"):
        next(requests)


def test_a_line_is_bounded(write: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "LINE_LIMIT", 100)
    with pytest.raises(UsageError, match="line 2: longer than 100"):
        list(read_trace(write(line(1) + line(*range(50)))))


def test_a_compressed_file_may_be_broken(write: Callable[[bytes], Path]) -> None:
    whole = gzip.compress(b"".join(line(n) for n in range(100)))
    with pytest.raises(UsageError, match="decompressed"):
        list(read_trace(write(whole[:-20])))
    with pytest.raises(UsageError, match="line 1: cannot be decompressed"):
        list(read_trace(write(whole[:12] + bytes(50))))


def test_a_file_may_be_missing_or_without_blocks(
    tmp_path: Path, write: Callable[[bytes], Path]
) -> None:
    with pytest.raises(UsageError, match="No such file"):
        list(read_trace(tmp_path / "none"))
    with pytest.raises(UsageError, match="directory"):
        list(read_trace(tmp_path))
    with pytest.raises(UsageError, match="no request has a block"):
        next(forever(write(line())))
