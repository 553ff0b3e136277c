"""What a block manager does for a request of 1,000 blocks, step by step; and a round of it, timed.

Imported by a process of another Python, too: nothing of kvferry here.
"""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from typing import Any

import msgspec
import numpy as np

__all__ = ["BLOCKS", "BLOCK_TOKENS", "POOL", "STEPS", "Ran", "Round", "Subject", "run_round"]

BLOCKS = 1000
BLOCK_TOKENS = 16
POOL = 4 * BLOCKS  # full of other requests' blocks: who allocates, evicts
VOCABULARY = 49_152

# Row -> what is called for it, in this order; of two calls the row has both times.
STEPS = {
    "request, hashed": "make",
    "pool: allocate, evicting": "allocate",
    "pool: cache": "cache",
    "pool: look up": "look_up",
    "pool: free": "free",
    "pool: touch, free ones": "touch",
    "pool: free again": "free",
    "another request, hashed": "make_again",
    "manager: look up, nothing there": "hit",
    "manager: allocate, evicting": "place",
    "manager: free": "end",
    "the same request, hashed": "make_same",
    "manager: look up, all there": "hit",
    "manager: allocate, all there": "place",
    "manager: free again": "end",
}


class Round(msgspec.Struct, frozen=True):
    """Go through all steps with the tokens of a seed. Answered by Ran."""

    seed: int


class Ran(msgspec.Struct, frozen=True):
    """taken   nanoseconds of each step
    hashes  digest of the hashes of all blocks
    found   blocks: by the pool, by the manager at first, and when all are there
    """

    taken: dict[str, int]
    hashes: str
    found: list[int]


class Subject(ABC):
    """A pool and its manager. Steps follow each other as in STEPS."""

    request: Any
    found: list[int]

    def begin(self, seed: int) -> None:
        shape = (2, BLOCKS * BLOCK_TOKENS + 1)
        words = np.random.default_rng(seed).integers(0, VOCABULARY, shape)
        self.tokens, self.others = (row.tolist() for row in words)
        self.name, self.found = str(seed), []

    def make(self) -> None:
        self.request = self.requested(self.name, self.tokens)

    def make_again(self) -> None:
        self.request = self.requested(f"{self.name} again", self.others)

    def make_same(self) -> None:
        self.request = self.requested(f"{self.name} same", self.others)

    @abstractmethod
    def requested(self, name: str, tokens: list[int]) -> Any: ...
    @abstractmethod
    def hashes(self) -> list[bytes]: ...
    @abstractmethod
    def allocate(self) -> None: ...
    @abstractmethod
    def cache(self) -> None: ...
    @abstractmethod
    def look_up(self) -> None: ...
    @abstractmethod
    def free(self) -> None: ...
    @abstractmethod
    def touch(self) -> None: ...
    @abstractmethod
    def hit(self) -> None: ...
    @abstractmethod
    def place(self) -> None: ...
    @abstractmethod
    def end(self) -> None: ...


def run_round(subject: Subject, asked: Round) -> Ran:
    subject.begin(asked.seed)
    taken = {}
    for row, step in STEPS.items():
        call = getattr(subject, step)
        begin = time.perf_counter_ns()
        call()
        taken[row] = time.perf_counter_ns() - begin
    digest = hashlib.sha256(b"".join(subject.hashes())).hexdigest()
    return Ran(taken, digest, subject.found)
