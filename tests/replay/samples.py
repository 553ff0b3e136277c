"""A small trace in each format, and naive simulators of the policies."""

from __future__ import annotations

import gzip
import json
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from kvferry.replay.trace import Call, Trace, trace_of

Request = list[int]


def chats(requests: int, seed: int = 7, block_tokens: int = 16) -> Iterator[Call]:
    """A few chats that grow and are left; all of them begin with the same two blocks."""
    draw = np.random.default_rng(seed)
    prompts = [[0, 1] for _ in range(40)]
    fresh = 2
    for number in range(requests):
        chat = int(draw.zipf(1.3)) % len(prompts)
        if len(prompts[chat]) > 60:
            prompts[chat] = [0, 1]
        more = int(draw.integers(1, 12))
        prompts[chat] = [*prompts[chat], *range(fresh, fresh + more)]
        fresh += more
        tokens = len(prompts[chat]) * block_tokens - int(draw.integers(0, block_tokens))
        yield Call(number * 0.25, tokens, 10 + number, np.array(prompts[chat], np.uint64))


def chat_trace(requests: int) -> Trace:
    return trace_of(chats(requests), "bailian", 16)


def mooncake_lines(requests: int = 20) -> list[str]:
    return [
        json.dumps(
            {
                "timestamp": call.at * 1000,
                "input_length": call.inputs,
                "output_length": call.outputs,
                "hash_ids": call.ids.tolist(),
            }
        )
        for call in chats(requests, block_tokens=512)
    ]


def bailian_lines(requests: int = 20) -> list[str]:
    return [
        json.dumps(
            {
                "chat_id": number,
                "parent_chat_id": number - 1,
                "timestamp": call.at,
                "input_length": call.inputs,
                "output_length": call.outputs,
                "type": "text",
                "turn": 1,
                "hash_ids": [(1 << 64) - 1 - each for each in call.ids.tolist()],
            }
        )
        for number, call in enumerate(chats(requests))
    ]


def agentic_lines() -> list[str]:
    """Two conversations with the same ids; in the second request of each a block was replaced."""
    reqs = [
        [0.0, 64 * 4 + 7, 9, 0.0, 1.0, 0, [[1, 4]]],
        [2.5, 64 * 6 + 1, 9, 1.0, 1.0, 3, [[7, 2], [20, 1]]],
    ]
    one = {"block_size": 64, "tool_tokens": 1, "system_tokens": 2, "nested_subagent_entries": 0}
    return [json.dumps({"id": name, **one, "reqs": reqs}) for name in ("a", "b")]


def azure_lines() -> list[str]:
    return [
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 18:15:46.6805900,374,44",
        "2023-11-16 18:15:50.9951690,1396,109",
    ]


LINES: dict[str, Callable[[], list[str]]] = {
    "mooncake": mooncake_lines,
    "bailian": bailian_lines,
    "agentic": agentic_lines,
    "azure": azure_lines,
}


def written(file: Path, lines: Iterable[str]) -> Path:
    """Compressed if its name says so."""
    text = "".join(f"{line}\n" for line in lines).encode()
    file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)
    return file


# ---- one block at a time, the tail first: (leading blocks, blocks) that were there ----

Naive = Callable[[list[Request], int], list[tuple[int, int]]]


def _leading(blocks: Request, there: Callable[[int], bool]) -> int:
    return next((at for at, block in enumerate(blocks) if not there(block)), len(blocks))


def naive_lru(requests: list[Request], capacity: int) -> list[tuple[int, int]]:
    line: OrderedDict[int, None] = OrderedDict()
    out = []
    for blocks in requests:
        prefix, hits = _leading(blocks, line.__contains__), 0
        for block in reversed(blocks):
            hits += block in line
            if block not in line and len(line) == capacity:
                line.popitem(last=False)
            line[block] = None
            line.move_to_end(block)
        out.append((prefix, hits))
    return out


def naive_lfu(requests: list[Request], capacity: int) -> list[tuple[int, int]]:
    state: dict[int, tuple[int, int]] = {}
    out, clock = [], 0
    for blocks in requests:
        prefix, hits = _leading(blocks, state.__contains__), 0
        for block in reversed(blocks):
            clock += 1
            if block in state:
                hits += 1
                state[block] = state[block][0] + 1, state[block][1]
                continue
            if len(state) == capacity:
                del state[min(state, key=state.__getitem__)]
            state[block] = 1, clock
        out.append((prefix, hits))
    return out


def naive_s3fifo(requests: list[Request], capacity: int) -> list[tuple[int, int]]:
    share = max(capacity // 10, 1)
    small, main = deque[int](), deque[int]()
    uses: dict[int, int] = {}
    ghosts: OrderedDict[int, None] = OrderedDict()

    def leave_main() -> None:
        while uses[main[0]]:
            uses[main[0]] -= 1
            main.rotate(-1)
        del uses[main.popleft()]

    def leave() -> None:
        while len(small) >= share or not main:
            block = small.popleft()
            if uses[block] < 2:
                del uses[block]
                ghosts[block] = None
                if len(ghosts) > capacity - share:
                    ghosts.popitem(last=False)
                return
            uses[block] = 0
            main.append(block)
        leave_main()

    out = []
    for blocks in requests:
        prefix, hits = _leading(blocks, uses.__contains__), 0
        for block in reversed(blocks):
            if block in uses:
                hits += 1
                uses[block] = min(uses[block] + 1, 3)
                continue
            if len(uses) == capacity:
                leave()
            (main if block in ghosts else small).append(block)
            ghosts.pop(block, None)
            uses[block] = 0
        out.append((prefix, hits))
    return out


def naive_min(requests: list[Request], capacity: int) -> list[tuple[int, int]]:
    turns = [block for blocks in requests for block in reversed(blocks)]
    there: set[int] = set()
    out, at = [], 0

    def wanted(block: int) -> int:
        return next((i for i in range(at, len(turns)) if turns[i] == block), len(turns))

    for blocks in requests:
        prefix, hits = _leading(blocks, there.__contains__), 0
        for block in reversed(blocks):
            at += 1
            hits += block in there
            there.add(block)
            there = {each for each in there if wanted(each) < len(turns)}
            if len(there) > capacity:
                there.remove(max(there, key=wanted))
        out.append((prefix, hits))
    return out
