"""Both workers, the store's node and whatever ends of them: real processes, a small model."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kvferry.demo.model import Llama, generate, load_model
from kvferry.demo.serving import DECODE, PREFILL, Ask, Cluster, Setting, Turn, open_cluster
from kvferry.demo.serving.messages import Failed, Ready, Said, Start
from kvferry.demo.serving.node import Node, open_node
from kvferry.demo.serving.push import BEHIND
from kvferry.errors import PeerError
from tests.demo.tiny import write_tiny

SIZE = 4
PROMPT = 120


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture(scope="module")
def model(file: Path) -> Llama:
    return load_model(file)


@pytest.fixture
def node() -> Iterator[Node]:
    with open_node("16MiB") as node:
        yield node


def setting(file: Path, node: Node | None, blocks: int = 128) -> Setting:
    store = None if node is None else node.address
    return Setting(file, store, blocks, SIZE, chunk=32, threads=1)


def ask(name: str, seed: int = 0, length: int = PROMPT, most: int = 8) -> Ask:
    tokens = np.random.default_rng(seed).integers(3, 200, length)
    return Ask(name, tokens.tolist(), most)


def check(model: Llama, turn: Turn) -> None:
    assert turn.given == list(generate(model, turn.ask.tokens, turn.ask.most))
    assert turn.done


def test_handed_over_kept_and_found(file: Path, model: Llama, node: Node) -> None:
    with open_cluster(setting(file, node)) as cluster:
        told: list[int] = []
        (first,) = cluster.serve([ask("first")], lambda turn: told.append(turn.given[-1]))
        check(model, first)
        assert told == first.given
        assert first.prefilled is not None
        assert first.prefilled.computed == PROMPT
        assert first.account.computed == 7, "the decoder computed what was handed over"
        assert {hop.path for hop in first.hops} == {"fabric/host/none"}
        assert sum(hop.bytes for hop in first.hops) == PROMPT // SIZE * page_bytes(model)
        assert {hop.layer for hop in first.hops} == set(range(model.config.layers))
        cluster.forget()
        (second,) = cluster.serve([ask("second")])
        check(model, second)
        assert second.prefilled is None
        assert second.account.loaded == PROMPT - SIZE
        assert second.account.computed == SIZE + 7
        plain = cluster.plain(ask("plain"))
        assert plain.given == second.given
        turns = cluster.serve([ask(f"{seed}", seed, 40 + 9 * seed) for seed in range(1, 6)])
        for turn in turns:
            check(model, turn)
        assert any(turn.prefilled for turn in turns)


def page_bytes(model: Llama) -> int:
    config = model.config
    return config.layers * 2 * SIZE * config.kv_heads * config.head_dim * 4


# What ends, and when: at the first token of a long answer, or before anything is asked.
def end_store(cluster: Cluster, node: Node) -> None:
    node.process.kill()


def stop_store(cluster: Cluster, node: Node) -> None:
    node.process.send_signal(signal.SIGTERM)


def end_prefill(cluster: Cluster, node: Node) -> None:
    cluster.processes[PREFILL].kill()


def confuse_prefill(cluster: Cluster, node: Node) -> None:
    cluster.processes[PREFILL].say(b"no order")


def pause_decode(cluster: Cluster, node: Node) -> None:
    """Longer than a peer waits for it."""
    pause(cluster.processes[DECODE].pid, BEHIND + 1.5)


def pause_prefill(cluster: Cluster, node: Node) -> None:
    pause(cluster.processes[PREFILL].pid, 1.0)


def pause_store(cluster: Cluster, node: Node) -> None:
    pause(node.process.pid, 3.0)


def pause(pid: int, seconds: float) -> None:
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(seconds, os.kill, (pid, signal.SIGCONT)).start()


ENDS = (end_store, stop_store, end_prefill, confuse_prefill)
PAUSES = (pause_decode, pause_prefill, pause_store)
SHORT = [(end_store, "amid"), (end_prefill, "amid")]
LONG = [
    pytest.param(end, at, marks=pytest.mark.slow)
    for end in (*ENDS, *PAUSES)
    for at in ("before", "between", "amid")
    if (end, at) not in SHORT
]


@pytest.mark.parametrize(("end", "at"), [*SHORT, *LONG])
def test_what_ends_costs_time_alone(
    file: Path, model: Llama, node: Node, end: Callable[[Cluster, Node], None], at: str
) -> None:
    with open_cluster(setting(file, node)) as cluster:
        if at == "before":
            end(cluster, node)
        first = ask("first", most=12)
        ended: list[Turn] = []

        def on_token(turn: Turn) -> None:
            if at == "amid" and not ended:
                ended.append(turn)
                end(cluster, node)

        turns = cluster.serve([first, ask("beside", 1)], on_token)
        if at == "between":
            end(cluster, node)
        cluster.forget()
        turns += cluster.serve([first._replace(name="again"), ask("other", 2)])
        for turn in turns:
            check(model, turn)


@pytest.mark.slow
def test_without_the_worker_that_decodes_nothing_goes_on(file: Path) -> None:
    with open_cluster(setting(file, None)) as cluster:
        cluster.processes[DECODE].kill()
        for name in ("first", "second"):
            with pytest.raises(PeerError, match="decode worker"):
                cluster.serve([ask(name)])


@pytest.mark.slow
def test_too_few_blocks_where_it_is_prefilled_or_decoded(file: Path, model: Llama) -> None:
    """Prompts wait for each other, and answers take each other's blocks; there is no store."""
    with open_cluster(setting(file, None, blocks=45)) as cluster:
        asks = [ask(f"{seed}", seed, 70, most=30) for seed in range(4)]
        turns = cluster.serve(asks)
        for turn in turns:
            check(model, turn)
        with pytest.raises(PeerError, match="181 tokens"):
            cluster.serve([ask("long", 0, 151, most=30)])
        for tokens, why in (([], "without tokens"), ([-1], "-1"), ([300], "token 300")):
            with pytest.raises(PeerError, match=why):
                cluster.serve([Ask("wrong", tokens, 1)])
            with pytest.raises(PeerError):
                cluster.plain(Ask("wrong", tokens, 1))
        check(model, cluster.serve([ask("right")])[0])
        cluster.processes[DECODE].say(b"no order")
        with pytest.raises(PeerError, match="an order that is none"):
            cluster.serve([ask("last")])


def test_a_model_that_is_none(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"no model")
    with pytest.raises(PeerError, match="GGUF"), ExitStack() as stack:
        stack.enter_context(open_cluster(setting(wrong, None)))


ORPHANS = """
import sys
from pathlib import Path
from kvferry.demo.serving import Ask, Setting, open_cluster, open_node
with open_node("16MiB") as node:
    setting = Setting(Path(sys.argv[1]), node.address, 600, 4, chunk=8, threads=1)
    with open_cluster(setting) as cluster:
        pids = [process.pid for process in cluster.processes.values()]
        print(*pids, node.process.pid, flush=True)
        cluster.serve([Ask("long", [5] * 600, 1400)])
"""


GIVES_UP = """
from kvferry.demo.serving import worker
from kvferry.errors import NotQuiet
def step(self): raise NotQuiet("amid", peer="p", wait_quiet=lambda _: False)
worker.MiniEngine.step = step
worker.main()
"""


@pytest.mark.slow
def test_a_worker_that_gives_up_says_why_and_ends(file: Path) -> None:
    """While somebody could still give it orders."""
    start = msgspec.json.encode(Start(str(file), None, 8, SIZE, 4))
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", GIVES_UP], stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(start + b"\n")
        process.stdin.flush()
        said = [msgspec.json.decode(process.stdout.readline(), type=Said) for _ in range(2)]
        assert isinstance(said[0], Ready)
        assert said[1] == Failed(None, "amid, peer p [not_quiet]")
        assert process.wait(10) == 0


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nobody_outlives_who_started_them(file: Path, tmp_path: Path, by: signal.Signals) -> None:
    begun = subprocess.Popen(
        [sys.executable, "-c", ORPHANS, str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert begun.stdout is not None
    with begun:
        watched = [os.pidfd_open(int(pid)) for pid in begun.stdout.readline().split()]
        begun.send_signal(by)
    for end in watched:
        assert select.select([end], [], [], 10)[0], "it still runs"
        os.close(end)
    assert len(watched) == 3
    assert list(tmp_path.iterdir()) == []
