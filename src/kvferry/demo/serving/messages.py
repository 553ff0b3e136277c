"""What the router and its workers say to each other: JSON, a line each. KV is not among it.

router              decode              prefill
  |---- Serve -------->|                   |
  |<--- Wanted --------|                   |    the prompt from here on, to these blocks
  |---- Prefill ----------------------- -->|
  |                    |<==== KV, layer by layer, then a notification with the first token
  |<--- Pushed ----------------------------|
  |<--- Given ---------|                        tokens, as they come
  |<--- Finished ------|
"""

from __future__ import annotations

import msgspec

__all__ = [
    "Account",
    "Alone",
    "Arrived",
    "Failed",
    "Finished",
    "Forget",
    "Given",
    "Hop",
    "Order",
    "Plain",
    "Prefill",
    "Pushed",
    "Ready",
    "Said",
    "Serve",
    "Start",
    "Troubled",
    "Unpushed",
    "Wanted",
]


class Start(msgspec.Struct, frozen=True, tag=True):
    """The first order. model: a file; store: an address, or none; blocks: of the KV memory."""

    model: str
    store: str | None
    blocks: int
    block_tokens: int
    chunk: int


class Serve(msgspec.Struct, frozen=True, tag=True):
    """Generate at most so many tokens. helped: another worker may compute the prompt."""

    name: str
    tokens: list[int]
    most: int
    stops: list[int]
    helped: bool


class Prefill(msgspec.Struct, frozen=True, tag=True):
    """Compute this prompt and one token; write KV from token `start` on to `blocks` of the engine
    at `to`, where those of the whole prompt are named."""

    name: str
    tokens: list[int]
    start: int
    blocks: list[int]
    to: str


class Alone(msgspec.Struct, frozen=True, tag=True):
    """Nobody writes the KV of it. gone: who would have, has ended."""

    name: str
    gone: bool


class Plain(msgspec.Struct, frozen=True, tag=True):
    """Generate as a program would that knows nothing of blocks, stores and peers."""

    name: str
    tokens: list[int]
    most: int
    stops: list[int]


class Forget(msgspec.Struct, frozen=True, tag=True):
    """What was computed so far is not to be found in this worker's blocks any more."""


Order = Start | Serve | Prefill | Alone | Plain | Forget


class Account(msgspec.Struct):
    """What the tokens of one request cost a worker.

    found     tokens whose KV was in its own blocks
    loaded    came from the store: so many bytes in so many seconds
    missing   were in the store, and could not be loaded
    computed  by the model
    preempted how often others needed its blocks
    """

    found: int = 0
    loaded: int = 0
    loaded_bytes: int = 0
    loaded_seconds: float = 0.0
    missing: int = 0
    computed: int = 0
    preempted: int = 0


class Hop(msgspec.Struct, frozen=True, array_like=True):
    """KV of one layer that was handed over: submitted at, on the monotonic clock; until it was
    there; over this path."""

    layer: int
    at: float
    seconds: float
    bytes: int
    path: str


class Ready(msgspec.Struct, frozen=True, tag=True):
    """It has the model. address: of its engine."""

    address: str


class Wanted(msgspec.Struct, frozen=True, tag=True):
    """The KV of this request, from token `start` on, in these blocks, where those of the whole
    prompt are named."""

    name: str
    start: int
    blocks: list[int]


class Pushed(msgspec.Struct, frozen=True, tag=True):
    """All of it is there. since: when the prompt was begun with, on the monotonic clock."""

    name: str
    since: float
    hops: list[Hop]
    account: Account


class Unpushed(msgspec.Struct, frozen=True, tag=True):
    """It did not get there, and nothing of it is under way."""

    name: str
    why: str


class Given(msgspec.Struct, frozen=True, tag=True):
    name: str
    token: int


class Finished(msgspec.Struct, frozen=True, tag=True):
    """account: None, of what was done plainly"""

    name: str
    account: Account | None


class Failed(msgspec.Struct, frozen=True, tag=True):
    """This one will not be served; None: the worker ends."""

    name: str | None
    why: str


class Troubled(msgspec.Struct, frozen=True, tag=True):
    """Something is away that it can do without."""

    why: str


Said = Ready | Wanted | Pushed | Unpushed | Given | Finished | Failed | Troubled


class Arrived(msgspec.Struct, frozen=True):
    """The notification behind the KV of a prompt. token: that follows it."""

    name: str
    token: int
