"""The order in which an engine comes to be.

    step                asks or makes                                        undone by
    supported options   the options, parsed; keys without effect are logged
    buffer pool         off under FabricMem, which stages nothing
    fabric memory       the route: which paths a channel may take
    resources           kvferry's options; threads that connect in the background  close, join
    virtual memory      how much malloc_mem may give
    auto connect        the connections                                      close
    statistics          counters and the line about them                     join
    control server      the engine, which listens                            close
    transfer service    memory, transfers

The order is HIXL's. What was made is undone in reverse, wherever the steps end. The threads that
connect are joined after the engine was closed, which ends what they are at.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import kvferry as kf
from kvferry.address import parse
from kvferry.config import from_environment

from .codes import OPTION_BUFFER_POOL, PARAM_INVALID
from .connections import Connections
from .failures import Refused
from .memory import TIB, Memory
from .options import POOL_OFF, parse_options
from .pool import ConnectPool
from .session import Route, Session
from .statistics import Statistics, SummaryLog
from .transfers import Transfers

__all__ = ["STEPS", "Step", "start"]

logger = logging.getLogger("hixl")

NOTIFIES = 4096  # that wait to be read
COMM_RES_MOST = 1 << 20  # bytes

_LOCAL_ENGINE = re.compile(r"(?P<host>\[[^\]]+\]|[^:\[\]]+)(?::(?P<port>-?[0-9]{1,9}))?")


Step = tuple[str, Callable[[Session], None]]


def supported_options(session: Session) -> None:
    session.settings = parse_options(session.given)
    path = session.settings.resources.comm_res_path
    if path:
        _check_file(path)
    for key in session.settings.hints:
        logger.info("%s was checked, and has no effect over host memory", key)


def buffer_pool(session: Session) -> None:
    settings = session.settings
    if settings.fabric_mem and settings.pool != POOL_OFF:
        raise Refused(
            PARAM_INVALID,
            f"{OPTION_BUFFER_POOL} is {settings.pool!r}, not {POOL_OFF!r} or absent: FabricMem "
            "stages nothing",
        )


def fabric_memory(session: Session) -> None:
    resources = session.settings.resources
    if not session.settings.fabric_mem:
        session.route = Route("direct")
    elif resources.aicpu_unfold:
        limit = resources.transfers_per_batch
        session.route = Route("fabricmem", "coprocessor", max_transfers_per_batch=limit)
    else:
        session.route = Route("fabricmem", "host", streams=resources.task_streams)


def resources(session: Session) -> None:
    settings = session.settings
    session.options = dataclasses.replace(
        from_environment(), bounce=settings.pool, notifications=NOTIFIES, hixl=None
    )
    found = settings.resources
    session.pool = ConnectPool(found.connect_threads, found.connect_capacity, session.carry_out)
    session.undo.callback(session.pool.close)


def virtual_memory(session: Session) -> None:
    session.capacity = session.settings.resources.capacity_tb * TIB


def auto_connect(session: Session) -> None:
    session.connections = Connections(
        session.dial,
        session.settings.auto_connect,
        lambda remote: session.statistics.register(remote),
        session.ended,
    )


def statistics(session: Session) -> None:
    session.statistics = Statistics()
    log = SummaryLog(session.statistics, time.monotonic)
    session.undo.callback(log.close)


def control_server(session: Session) -> None:
    session.engine = kf.Engine(*_listening(session.local_engine), options=session.options)
    session.undo.callback(_close_engine, session.engine)


def transfer_service(session: Session) -> None:
    session.memory = Memory(session.engine, session.capacity)
    session.transfers = Transfers(session.memory, session.connections, session.statistics)
    session.undo.callback(session.connections.close)


STEPS: tuple[Step, ...] = (
    ("supported options", supported_options),
    ("buffer pool", buffer_pool),
    ("fabric memory", fabric_memory),
    ("resources", resources),
    ("virtual memory", virtual_memory),
    ("auto connect", auto_connect),
    ("statistics", statistics),
    ("control server", control_server),
    ("transfer service", transfer_service),
)


def start(local_engine: str, given: Mapping[str, str], steps: Sequence[Step] = STEPS) -> Session:
    """Take the steps; when one fails nothing stays, and its error is raised."""
    session = Session(local_engine, given)
    with ExitStack() as guard:
        guard.callback(session.close)
        for name, step in steps:
            logger.debug("%s: %s", local_engine, name)
            step(session)
        guard.pop_all()
    return session


def _listening(local_engine: str) -> tuple[str, ...]:
    """Where to listen: nowhere without a port above 0. Raises Refused, UsageError."""
    found = _LOCAL_ENGINE.fullmatch(local_engine)
    if found is None:
        raise Refused(PARAM_INVALID, f"{local_engine!r} is not ip, ip:port, [v6] or [v6]:port")
    port = max(int(found["port"] or 0), 0)
    address = f"{found['host']}:{port}"
    parse(address, listening=True)
    return (address,) if port else ()


def _close_engine(engine: kf.Engine) -> None:
    try:
        engine.close()
    except kf.NotQuiet as error:  # everything is closed and quiet even then
        logger.error("finalize: %s", error)


def _check_file(path: str) -> None:
    key = "local_comm_res_path"
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        raise Refused(PARAM_INVALID, f"{key} is {path!r}: {error}") from None
    if not stat.S_ISREG(found.st_mode) or not 1 <= found.st_size <= COMM_RES_MOST:
        raise Refused(PARAM_INVALID, f"{key} is {path!r}, not a file of 1 to {COMM_RES_MOST} bytes")
