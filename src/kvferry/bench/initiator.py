"""An initiator of its own: ``python -m kvferry.bench.initiator``.

It reads one Start from its standard input, and then does what each Order says and answers it, until
its input ends: when whoever started it hangs up, or dies.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import Error
from .callers import Callers
from .launch import Target
from .orders import Answer, Check, Connect, Go, Load, Order, Prepare, Start, decode, encode
from .session import Session, open_engine
from .target import REGION

__all__ = ["carry_out"]


def main() -> None:
    start = decode(sys.stdin.buffer.readline(), Start)
    try:
        with open_engine(start.token) as engine:
            region = engine.allocate(REGION, start.size)
            target = Target(start.pid, start.address)
            with Callers([Session(engine, region, target, start.share)]) as callers:
                _say(Answer())
                for line in sys.stdin.buffer:
                    _say(_answer(callers, decode(line, Order)))  # type: ignore[arg-type]
    except Error as error:
        _say(Answer(error=str(error)))


def _answer(callers: Callers, order: Order) -> Answer:
    try:
        value = carry_out(callers, order)
    except (Error, OSError) as error:
        return Answer(error=f"{type(error).__name__}: {error}")
    return Answer(msgspec.Raw(encode(value)))


def carry_out(callers: Callers, order: Order) -> Any:
    """What the order asks for; None for most."""
    return _DUTIES[type(order)](callers, order)


_DUTIES: dict[type, Callable[[Callers, Any], Any]] = {
    Connect: lambda callers, order: callers.connect(order.case),
    Prepare: lambda callers, order: callers.prepare(order.case),
    Load: lambda callers, order: callers.load(order.what),
    Go: lambda callers, order: callers.go(order.at),
    Check: lambda callers, order: callers.check(),
}


def _say(answer: Answer) -> None:
    sys.stdout.buffer.write(encode(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
