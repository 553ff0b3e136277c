"""Emptying segments: jobs, one after the other, in a thread of their own.

    CREATED   RUNNING begun                     CANCELED asked
    RUNNING   SUCCEEDED empty   FAILED not so   CANCELED asked, until nodes are told to take nothing

What a segment has and no other one has is copied to where the directory would put it, as far as it
is known by name and in the default tenant. Where that cannot be, the job has failed, and nothing is
lost. Then its node is told to take nothing in any more and let go of all, which it does when leases
and reads are over.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from queue import SimpleQueue
from typing import Any

import msgspec
import numpy as np

from kvferry.errors import Error, PeerError
from kvferry.store import Answer as Said
from kvferry.store import messages as m
from kvferry.store.answers import Digests
from kvferry.store.seen import NodeSeen

from ..web import Answer
from . import replies
from .cluster import PAGE, Cluster, Names
from .replies import json, refusal

__all__ = ["Drains"]

logger = logging.getLogger("mooncake.admin")

JOBS = 1024  # that are remembered; those done longest ago are forgotten
WAITING = 64  # that may wait
PATIENCE = 60.0  # seconds in which leases may end
PAUSE = 0.2  # seconds between two looks at whether they have, or what was copied is known
PASSES = 50  # looks at what was copied
COPYING = 60.0  # seconds that a node may take to copy a page of keys


class State(Enum):
    CREATED = 0
    RUNNING = 2
    SUCCEEDED = 3
    FAILED = 4
    CANCELED = 5


class Event(Enum):
    BEGUN = "begun"
    EMPTY = "empty"
    BROKEN = "broken"
    CANCEL = "cancel"


# What is not here changes nothing.
_NEXT = {
    (State.CREATED, Event.BEGUN): State.RUNNING,
    (State.CREATED, Event.CANCEL): State.CANCELED,
    (State.RUNNING, Event.EMPTY): State.SUCCEEDED,
    (State.RUNNING, Event.BROKEN): State.FAILED,
    (State.RUNNING, Event.CANCEL): State.CANCELED,
}
_OVER = {State.SUCCEEDED, State.FAILED, State.CANCELED}


class _Wanted(msgspec.Struct):
    segments: list[str]


@dataclass(eq=False)
class Job:
    """lives    of the segments' nodes, by their epochs
    copied   keys
    failed   keys that are nowhere else
    held     1: leases or reads keep a segment from being empty
    closing  nodes were told, and it cannot be canceled any more
    """

    segments: tuple[str, ...]
    lives: tuple[int, ...]
    id: str = field(default_factory=lambda: f"{secrets.randbits(63)}-{secrets.randbits(63)}")
    state: State = State.CREATED
    created: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    updated: int = 0
    copied: int = 0
    failed: int = 0
    held: int = 0
    closing: bool = False
    message: str = "Drain job created"

    def meet(self, event: Event, message: str) -> None:
        state = _NEXT.get((self.state, event))
        if state is not None:
            self.state, self.message = state, message
            self.updated = time.time_ns() // 1_000_000

    @property
    def segment_status(self) -> str:
        """Of what it is about. A node that was told to let go takes nothing in, whatever came."""
        if self.state is State.SUCCEEDED:
            return "DRAINED"
        return "DRAINING" if self.closing or self.state is State.RUNNING else "OK"

    def told(self) -> dict[str, Any]:
        return {
            "success": True,
            "job_id": self.id,
            "type": 0,
            "type_name": "DRAIN",
            "status": self.state.value,
            "status_name": self.state.name,
            "created_at_ms_epoch": self.created,
            "last_updated_at_ms_epoch": max(self.updated, self.created),
            "segments": list(self.segments),
            "succeeded_units": self.copied,
            "failed_units": self.failed,
            "blocked_units": self.held,
            "active_units": 0,
            "migrated_bytes": None,
            "message": self.message,
            "error_code": 0,
            "error_message": "",
        }


class Drains:
    """Thread-safe. Its thread begins with the first job."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def close(self) -> None:
        """Blocks until the job that runs has seen it."""
        self._over.set()
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    def status_of(self, node: NodeSeen) -> str | None:
        """As the last job that names this life of it has it; None: no job does."""
        with self._lock:
            jobs = [each for each in self._jobs.values() if _about(each, node)]
        return jobs[-1].segment_status if jobs else None

    # ---- requests ----

    def create(self, body: bytes) -> Answer:
        try:
            wanted = msgspec.json.decode(body, type=_Wanted)
        except msgspec.DecodeError as error:
            return refusal(replies.INVALID_PARAMS, f"Invalid JSON body: {error}")
        there = {node.address: _life(node) for node in self._cluster.look().nodes}
        if not wanted.segments:
            return refusal(replies.INVALID_PARAMS)
        if not there.keys() >= set(wanted.segments):
            return refusal(replies.SEGMENT_NOT_FOUND)
        segments = tuple(dict.fromkeys(wanted.segments))
        job = Job(segments, tuple(there[each] for each in segments))
        if not self._enqueue(job):
            return refusal(replies.UNAVAILABLE_IN_CURRENT_STATUS, f"{WAITING} jobs wait")
        return _short(job)

    def query(self, id: str) -> Answer:
        job = self._jobs.get(id)
        return _unknown(id) if job is None else json(job.told())

    def cancel(self, id: str) -> Answer:
        job = self._jobs.get(id)
        if job is None:
            return _unknown(id)
        with self._lock:
            if job.closing:
                reason = "its segments were told to let go, which they do"
                return refusal(replies.UNAVAILABLE_IN_CURRENT_STATUS, reason)
            job.meet(Event.CANCEL, "Drain job canceled")
        return _short(job)

    def _enqueue(self, job: Job) -> bool:
        with self._lock:
            if sum(each.state not in _OVER for each in self._jobs.values()) >= WAITING:
                return False
            self._jobs[job.id] = job
            while len(self._jobs) > JOBS:
                self._jobs.popitem(last=False)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="mooncake-drains", daemon=True
                )
                self._thread.start()
        self._queue.put(job)
        return True

    # ---- work ----

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            with self._lock:
                job.meet(Event.BEGUN, "Drain job running")
            try:
                event, message = self._drain(job)
            except Error as error:
                event, message = Event.BROKEN, str(error)
            except Exception as error:
                logger.exception("a drain job failed")
                event, message = Event.BROKEN, type(error).__name__
            with self._lock:
                job.meet(event, message)

    def _drain(self, job: Job) -> tuple[Event, str]:
        left = sum(self._copy(job, segment) for segment in job.segments)
        with self._lock:
            if job.state is State.CANCELED:
                return Event.CANCEL, job.message
            if left:
                return Event.BROKEN, f"{left} keys are nowhere else"
            job.closing = True
        end = time.monotonic() + PATIENCE
        for segment in job.segments:
            while not self._empty(segment):
                job.held = 1
                if time.monotonic() > end or self._over.wait(PAUSE):
                    return Event.BROKEN, f"something stays leased or read at {segment}"
        job.held = 0
        return Event.EMPTY, "Drain job done"

    def _empty(self, segment: str) -> bool:
        """It takes nothing in any more, and has nothing any more."""
        told = self._cluster.home(segment).ask(m.Drain(), m.Told)
        return told.answers == bytes([Said.REMOVED])

    def _copy(self, job: Job, segment: str) -> int:
        """Have what is known by name there, and nowhere else, at others, and known to be: of how
        many keys that is not so in the end."""
        for _ in range(PASSES):
            pages = self._cluster.names()
            job.failed = sum(self._copy_some(job, segment, page) for page in _pages(pages))
            if not job.failed or job.state is State.CANCELED or self._over.wait(PAUSE):
                break
        return job.failed

    def _copy_some(self, job: Job, segment: str, names: Names) -> int:
        """How many of these are nowhere else yet, as far as the directory knows."""
        digests = self._cluster.digests(names)
        node = self._cluster.node(segment)
        if digests is None or node is None:
            raise PeerError(f"{segment} is gone", cause="node_gone")
        holders = dict(self._cluster.holders(digests))
        here = set(holders.pop(segment, ()))
        alone = sorted(here.difference(*holders.values()))
        if alone and job.state is not State.CANCELED:
            self._order(job, segment, np.ascontiguousarray(digests[alone]), node)
        return len(alone)

    def _order(self, job: Job, segment: str, digests: Digests, node: NodeSeen) -> None:
        """Tell the node to copy them to where the directory would."""
        for address, rows in self._cluster.elsewhere(digests, node):
            wanted = m.column_of(np.ascontiguousarray(digests[rows]))
            ask = m.Copy(wanted, f"kv://{address}")
            said = self._cluster.home(segment).ask(ask, m.Told, COPYING).answers
            job.copied += said.count(bytes([Said.STORED]))


def _about(job: Job, node: NodeSeen) -> bool:
    return (node.address, _life(node)) in zip(job.segments, job.lives, strict=True)


def _life(node: NodeSeen) -> int:
    return node.epoch if node.standing is None else node.standing.epoch


def _pages(pages: Iterable[Names]) -> Iterator[Names]:
    """Of no more keys than are asked for at once."""
    for names in pages:
        for first in range(0, len(names), PAGE):
            yield names[first : first + PAGE]


def _short(job: Job) -> Answer:
    told = {"success": True, "job_id": job.id, "status": job.state.name}
    return json({**told, "error_code": 0, "error_message": ""})


def _unknown(id: str) -> Answer:
    first, dash, second = id.partition("-")
    if not (first.isdecimal() and dash and second.isdecimal()):
        return refusal(replies.INVALID_PARAMS, "Missing or invalid job_id")
    return refusal(replies.JOB_NOT_FOUND)
