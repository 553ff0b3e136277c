"""What is told to loggers cannot change what happens."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kvferry import log


class Raises(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError("this handler is broken")


@pytest.fixture
def broken() -> Iterator[logging.Logger]:
    logger = logging.getLogger("kvferry.broken")
    handler = Raises()
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)


def test_a_handler_that_raises_is_told_on_standard_error(
    broken: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log.get("kvferry.broken").warning("a %s", "message")
    assert "this handler is broken" in capsys.readouterr().err


def test_records_name_who_called(caplog: pytest.LogCaptureFixture) -> None:
    told = log.get("kvferry.test")
    told.warning("one %d", 1)
    try:
        raise ValueError("two")
    except ValueError:
        told.exception("failed")
    told.log(logging.ERROR, "three")
    assert [record.funcName for record in caplog.records] == [
        test_records_name_who_called.__name__
    ] * 3
    assert [record.getMessage() for record in caplog.records] == ["one 1", "failed", "three"]
    assert caplog.records[1].exc_info
