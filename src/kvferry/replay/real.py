"""A trace replayed against a real store, at the times at which its requests came."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..store import Store
from ..store.policies import POLICIES
from .bodies import Bodies
from .embedded import embedded, fill
from .simulate import HEAD_FIRST, Hits
from .stored import Stored
from .trace import Trace
from .walk import serve

__all__ = ["Measured", "Pace", "Real", "replay_at", "replay_embedded"]

LATE = 0.010  # seconds
PERCENTILES = (50, 90, 99, 99.9)


class Pace(NamedTuple):
    """When a request is due. speed 0: at once, whenever it came."""

    speed: float

    def due(self, arrival: float) -> float:
        """Seconds after the beginning."""
        return arrival / self.speed if self.speed else 0.0


class Measured(NamedTuple):
    """seconds    from the first request's beginning to the last one's end, of which the store
               was `reading` and `writing`
    latencies  milliseconds that requests took, by percentile, the store's calls and the
               verification
    late       requests that began more than 10 ms after they were due, by `latest` seconds at most
    vanished   blocks that left between being seen and being read; refused: that were not taken
    """

    seconds: float
    reading: float
    writing: float
    read_bytes: int
    written_bytes: int
    latencies: dict[str, float]
    late: int
    latest: float
    vanished: int
    refused: int

    @property
    def read_gbps(self) -> float:
        return self.read_bytes / self.reading / 1e9 if self.reading else 0.0

    @property
    def written_gbps(self) -> float:
        return self.written_bytes / self.writing / 1e9 if self.writing else 0.0


class Real(NamedTuple):
    hits: Hits
    measured: Measured


Tick = Callable[[int], None]


def replay_embedded(
    trace: Trace, policy: str, capacity: int, size: int, speed: float, tick: Tick
) -> Real:
    """In a store of this process, of so many blocks of `size` bytes; it is full when it begins if
    it is ever to be. Every byte that is read is verified: raises PeerError (not_verified).

    Raises UsageError for a policy that no node has (policy).
    """
    if policy not in POLICIES:
        raise UsageError(f"no node has the policy {policy!r}: it is for comparison", cause="policy")
    bodies, longest = Bodies(size), int(trace.lengths.max(initial=1))
    with closing(embedded(policy, capacity, size, longest)) as store:
        if capacity < trace.unique:
            fill(store, capacity, size)
        parents = trace.parents() if policy in HEAD_FIRST else None
        stored = Stored(store, bodies, capacity, "replay", parents)
        return _replay(trace, stored, policy, capacity, Pace(speed), tick)


def replay_at(trace: Trace, address: str, size: int, speed: float, tick: Tick) -> Real:
    """In the store at an address, under keys of this run alone."""
    bodies, name = Bodies(size), f"replay-{secrets.token_hex(8)}"
    with closing(Store(address)) as store:
        stored = Stored(store, bodies, max(trace.unique, 1), name, trace.parents())
        return _replay(trace, stored, "prefix", 0, Pace(speed), tick)


def _replay(
    trace: Trace, stored: Stored, policy: str, capacity: int, pace: Pace, tick: Tick
) -> Real:
    served = np.empty((len(trace), 2), np.int64)
    took, late = np.empty(len(trace)), np.empty(len(trace))
    zero = time.perf_counter()
    for request, arrival in enumerate(trace.arrivals.tolist()):
        due = zero + pace.due(arrival)
        time.sleep(max(due - time.perf_counter(), 0.0))
        began = time.perf_counter()
        served[request] = serve(stored, trace.of(request), policy in HEAD_FIRST)
        took[request] = time.perf_counter() - began
        late[request] = began - due if pace.speed else 0.0
        tick(1)
    hits = Hits(policy, capacity, served[:, 0], served[:, 1])
    return Real(hits, _measured(stored, time.perf_counter() - zero, took, late))


def _measured(
    stored: Stored, seconds: float, took: NDArray[np.float64], late: NDArray[np.float64]
) -> Measured:
    times = np.percentile(took * 1e3, PERCENTILES).tolist()
    return Measured(
        seconds=seconds,
        reading=stored.reading,
        writing=stored.writing,
        read_bytes=stored.read_bytes,
        written_bytes=stored.written_bytes,
        latencies={f"p{q:g}": ms for q, ms in zip(PERCENTILES, times, strict=True)},
        late=int((late > LATE).sum()),
        latest=float(late.max()),
        vanished=stored.vanished,
        refused=stored.refused,
    )
