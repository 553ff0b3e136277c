"""What an engine in a process of its own costs while bytes come that mean it no good.

A peak is what the kernel says that this process had resident at most (VmHWM) since it was last
reset, so what is allocated for a moment alone counts, too, in Python and in native code.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import kvferry as kf
from kvferry.testing import Parent

SIZE = 1 << 20
QUICK = 0.5
BEAT = 0.04  # seconds; four looks in it: so long may a bad one stay


def serve(parent: Parent, socket_file: str, token: str) -> None:
    """An engine to attack. For "reset" and "peak" of the parent: bytes."""
    options = kf.Options(token_file=Path(token), token=token.encode(), beat=BEAT)
    with kf.Engine("127.0.0.1:0", f"unix://{socket_file}", options=options) as engine:
        engine.allocate("kv", SIZE)
        parent.tell([*engine.addresses, engine._front._door.hex()])
        for wish in parent:
            parent.tell(WISHES[wish]())


def connect(parent: Parent, token: str) -> None:
    """Connects to every address the parent tells, and asks; also for "reset" and "peak"."""
    options = kf.Options(token_file=Path(token), token=token.encode(), call_timeout=QUICK)
    with kf.Engine(options=options) as engine:
        for wish in parent:
            parent.tell(WISHES[wish]() if wish in WISHES else meet(engine, wish))


def meet(engine: kf.Engine, address: str) -> str:
    with contextlib.ExitStack() as undo:
        try:
            peer = engine.connect(address, path="fabric/inline", timeout=QUICK)
            undo.callback(peer.close)
            peer.write(kf.Batch.of(bytes(100), peer.regions["kv"]), timeout=QUICK)
            peer.call("echo", b"x", timeout=QUICK)
        except kf.Error as error:
            return error.cause
    return "done"


def reset() -> int:
    """Forget the peak: from here on it is what is resident now, which is returned."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError("the kernel does not tell the peak")


WISHES = {each.__name__: each for each in (reset, peak)}
