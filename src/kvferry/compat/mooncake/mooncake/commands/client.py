"""``mooncake_client``: a node of kvferry, whose segment a master knows of."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from kvferry import config
from kvferry.address import parse
from kvferry.engine import Engine
from kvferry.errors import Error, PeerError
from kvferry.store import Store
from kvferry.store import messages as m
from kvferry.store.seen import NodeSeen, parts_of

from .. import settings, variables
from ..names import joined, numeric
from ..running import until_ended
from ..store_setup import Setup, bytes_of, setup_of
from ..web import Answer, Asked, Server, serving
from .client_flags import CLIENT
from .command import listening, run, token_from
from .flags import BadFlag, Flags
from .logging_flags import tell_idle
from .replies import PROMETHEUS, json, text
from .series import allocated, capacity, client_series, size

__all__ = ["main"]

NAME = "mooncake_client"
AT_ONCE = 8  # connections
LOOPBACK = "127.0.0.1"
ANSWER = 3.0  # seconds in which a master has to answer
PATIENCE = 10.0  # seconds in which there has to be one
PAUSE = 0.5  # seconds between two tries
POLL = 0.02  # seconds between two looks at whether the master knows of the node
DISK = "100GiB"  # that a disk may take where nobody says how much

logger = logging.getLogger("mooncake.client")


def main(words: Sequence[str] | None = None) -> None:
    run(NAME, CLIENT, words, _work)


def _work(flags: Flags) -> None:
    tell_idle(logger, CLIENT, flags)
    options = config.from_environment()
    with until_ended() as wait, _running(flags, options) as where:
        print(f"{NAME}: {where}", flush=True)  # noqa: T201  whoever started it waits for this
        wait()
    logger.info("ended")


@contextmanager
def _running(flags: Flags, options: config.Options) -> Iterator[str]:
    """The node and, if it is wanted, what answers HTTP for it: where they are."""
    asked = _setup(flags)
    wanted = _settings(asked.directory(), options)
    with ExitStack() as stack:
        store = stack.enter_context(closing(_store(flags, asked, wanted, options)))
        (name,) = store.engine.addresses
        parts = [f"{size(asked.global_segment_size)} at kv://{name}", f"master {asked.directory()}"]
        if flags.switch("enable_http_server"):
            answering = partial(
                Server, answer=partial(_answer, store, name), body=0, at_once=AT_ONCE
            )
            server = listening(answering, LOOPBACK, flags.number("http_port"))
            parts.append(f"HTTP at {stack.enter_context(serving(server)).url}")
        yield ", ".join((*parts, f"token from {token_from(options)}"))


def _setup(flags: Flags) -> Setup:
    """Raises UsageError for sizes and addresses that are none."""
    found = setup_of(
        flags.text("host"),
        flags.text("metadata_server"),
        flags.text("global_segment_size"),
        flags.text("local_buffer_size"),
        flags.text("protocol"),
        flags.text("device_names"),
        flags.text("master_server_address"),
    )
    if not found.global_segment_size:
        raise BadFlag("--global_segment_size: a client gives memory")
    return found


def _settings(master: str, options: config.Options) -> settings.Settings:
    """Of the master, which is waited for. Raises PeerError when none comes."""
    end = time.monotonic() + PATIENCE
    with Engine(options=options) as engine:
        while True:
            try:
                return settings.ask(engine.connect(master, timeout=ANSWER), ANSWER)
            except PeerError:
                if time.monotonic() > end:
                    raise
                time.sleep(PAUSE)


def _store(flags: Flags, asked: Setup, wanted: settings.Settings, options: config.Options) -> Store:
    """Known to the master, if it says so within three seconds. Raises Error where the node cannot
    be."""
    address = joined(numeric(flags.text("host"), ipv6=False), flags.number("port"))
    parse(address)
    disk = _disk(flags)
    store = Store(
        options=options,
        listen=[address],
        size=asked.global_segment_size,
        directory=[asked.directory()],
        limits=wanted.limits,
        ssd=disk.folder,
        ssd_size=None if disk.size is None else bytes_of(disk.size),
    )
    end = time.monotonic() + ANSWER
    while not store.enrolled and time.monotonic() < end:
        time.sleep(POLL)
    return store


def _disk(flags: Flags) -> variables.Offload:
    if not flags.switch("enable_offload"):
        return variables.Offload(None, None)
    said = variables.offload()
    if said.folder is None:
        raise BadFlag("--enable_offload: MOONCAKE_OFFLOAD_FILE_STORAGE_PATH names no folder")
    return said._replace(size=said.size or DISK)


# ---- HTTP ----


def _answer(store: Store, name: str, asked: Asked) -> Answer:
    if asked.method != "GET" or asked.path not in ("/health", "/metrics", "/metrics/summary"):
        return text("404 Not Found", 404)
    try:
        own, _ = parts_of(m.Looked(store.stats()))
    except Error as error:
        return text(str(error), 503)
    node = NodeSeen(name, own=own)
    if asked.path == "/health":
        return json({"status": "healthy", "code": 0})
    if asked.path == "/metrics":
        return Answer(200, client_series(node).encode(), PROMETHEUS)
    return text(f"segment {name}: {size(allocated(node))} / {size(capacity(node))}")


if __name__ == "__main__":
    main()
