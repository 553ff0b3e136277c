"""What a directory costs: lookups a second, bytes a key, and the time until a new one knows all.

bench process --+-- pipe --> directory    killed and started anew to be built again
                |-- pipe --> four nodes   each with a fourth of the keys, which they report
                '-- pipe --> a user       who looks keys up
"""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from typing import NamedTuple

import msgspec

from ...errors import PeerError
from ..launch import Process
from ..machine import read_machine
from ..result import describe
from .directory_worker import Ask, Begin, Count, Counted, Fill
from .server import free_port

__all__ = ["DirectoryResult", "Lookups", "Plan", "run_directory"]

MODULE = "kvferry.bench.store.directory_worker"
NODES = 4
BATCHES = (128, 512, 4096)
FEW_LEFT = 0.999  # of those that were put: an index refuses some before it is full
PATIENCE = 120.0
POLL = 0.05
WANTED_LOOKUPS, WANTED_BYTES, WANTED_REBUILD = 300_000, 250, 30.0  # of a million keys


class Plan(NamedTuple):
    keys: int
    seconds: float


class Lookups(msgspec.Struct, frozen=True):
    """Keys a second as the user saw it, and of the directory's processor time alone."""

    batch: int
    found: float
    per_second: float
    per_cpu_second: float
    met: bool


class DirectoryResult(msgspec.Struct, frozen=True):
    """key_bytes    of the directory's process, all that came with the keys
    table_bytes  a key, in its table alone
    built_s      from when it listened, killed and started anew, until it knew every key
    """

    machine: dict[str, object]
    keys: int
    nodes: int
    lookups: list[Lookups]
    key_bytes: float
    table_bytes: float
    built_s: float
    verified: bool
    met: bool


def run_directory(plan: Plan) -> DirectoryResult:
    """Blocks for some ten seconds a million keys. Raises PeerError when a process ends."""
    token = secrets.token_hex().encode()
    each = plan.keys // NODES
    keys = each * NODES
    with ExitStack() as stack:

        def start(begin: Begin) -> _Worker:
            worker = _Worker(begin)
            stack.callback(worker.process.end)
            return worker

        here = Begin("directory", token, f"127.0.0.1:{free_port()}")
        directory = start(here)
        empty = directory.ask(Count())
        nodes = [
            start(Begin("node", token, f"127.0.0.1:{free_port()}", here.listen, each))
            for _ in range(NODES)
        ]
        stored = sum(node.ask(Fill(at * each, each)).good for at, node in enumerate(nodes))
        full = _until_told(directory, int(FEW_LEFT * stored))
        user = start(Begin("user", token, "", here.listen))
        lookups = [_lookups(directory, user, batch, keys, plan.seconds) for batch in BATCHES]
        directory.process.kill()
        directory.process.end()
        directory = start(here)
        begun = time.monotonic()
        there = full.figures["keys"]
        again = _until_told(directory, there)
        built = time.monotonic() - begun
    cost = (full.resident - empty.resident) / there
    good = all(each.found > 0.99 for each in lookups) and again.figures["places"] == there
    met = cost <= WANTED_BYTES and built <= WANTED_REBUILD and all(each.met for each in lookups)
    return DirectoryResult(
        machine=describe(read_machine(), {}),
        keys=there,
        nodes=NODES,
        lookups=lookups,
        key_bytes=round(cost, 1),
        table_bytes=round(full.figures["memory"] / there, 1),
        built_s=round(built, 2),
        verified=good and there > FEW_LEFT * keys,
        met=met,
    )


class _Worker:
    def __init__(self, begin: Begin) -> None:
        self.process = Process(MODULE, begin.role)
        self.process.say(msgspec.json.encode(begin))
        self.process.hear()

    def ask(self, what: Fill | Ask | Count) -> Counted:
        self.process.say(msgspec.json.encode(what))
        return msgspec.json.decode(self.process.hear(), type=Counted)


def _until_told(directory: _Worker, keys: int) -> Counted:
    deadline = time.monotonic() + PATIENCE
    while True:
        seen = directory.ask(Count())
        if seen.figures["keys"] >= keys and not seen.figures["telling"]:
            time.sleep(POLL)  # and what is under way this moment
            return directory.ask(Count())
        if time.monotonic() > deadline:
            raise PeerError(f"the directory knows {seen.figures} only", cause="directory")
        time.sleep(POLL)


def _lookups(directory: _Worker, user: _Worker, batch: int, keys: int, seconds: float) -> Lookups:
    before = directory.ask(Count()).cpu
    told = user.ask(Ask(batch, keys, seconds))
    spent = directory.ask(Count()).cpu - before
    asked = told.figures["keys"]
    rate = asked / told.seconds
    return Lookups(
        batch=batch,
        found=round(told.good / asked, 4),
        per_second=round(rate),
        per_cpu_second=round(asked / spent),
        met=asked / spent >= WANTED_LOOKUPS,
    )
