"""One process that uses a store, as the bench has it: passes, and what came of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..launch import Target
from ..peers.messages import Check, Fill, Go, Poison
from ..peers.process import Process, code_of, start_process
from ..verify import Landing, Verdict
from .asked import Rival
from .messages import Clear, Drop, Load, Open, Opened, Ran
from .passes import Calls
from .tasks import Op, Role

__all__ = ["Party", "open_party"]

WORKER = "kvferry.bench.store.worker"
OUR_CODE = f"import sys; from {WORKER} import main; main(sys.argv[1])"
SEED = 7

# What shows the values that a call leaves where they are.
SHOWN = {Op.PUT: Op.GET, Op.PUT_BATCH: Op.GET_BATCH, Op.VIEW: Op.LOOK}


class Party:
    """name    in the table
    opened  what it said when its store was open
    """

    def __init__(self, name: str, role: Role, process: Process, opened: Opened) -> None:
        self.name = name
        self.role = role
        self.opened = opened
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def cpu(self) -> float:
        """Seconds of processor time it has used, in all threads."""
        return Target(self.pid, "").cpu

    def fill(self) -> None:
        """Its side holds the pattern from which every value is taken."""
        self._process.ask(Fill(SEED), type(None))

    def run(self, calls: Calls, op: Op | None = None) -> Ran:
        """One timed pass. Blocks; raises PeerError when the store or the process fails."""
        numbers, slots = calls.numbers.tobytes(), calls.slots.tobytes()
        load = Load(op or calls.op, calls.block, calls.batch, numbers, slots)
        self._process.ask(load, type(None))
        return self._process.ask(Go(), Ran)

    def shown(self, calls: Calls) -> tuple[Ran, Verdict]:
        """Read the objects of a pass, whatever it did, and compare every byte, and that no other
        of the side was touched."""
        self._process.ask(Poison(), type(None))
        ran = self.run(calls, SHOWN.get(calls.op, calls.op))
        return ran, self._compare(calls)

    def drop(self, calls: Calls) -> None:
        self._process.ask(Drop(calls.block, calls.numbers.tobytes()), type(None))

    def clear(self, block: int, count: int) -> None:
        self._process.ask(Clear(block, count), type(None))

    def _compare(self, calls: Calls) -> Verdict:
        source = calls.sources.tobytes()
        landing = Landing(0, calls.block, calls.total, calls.slots.tobytes(), source)
        return self._process.ask(Check([landing], SEED), Verdict)


@contextmanager
def open_party(asked: Rival, name: str, role: Role, wanted: Open) -> Iterator[Party]:
    """Start a process that uses a store. Gone, with all it started, after the block.

    Raises UsageError where the package is missing, PeerError when it does not start.
    """
    code = OUR_CODE if asked.is_ours else code_of(WORKER)
    with start_process(asked, f"{name} process", code) as process:
        yield Party(name, role, process, process.ask(wanted, Opened))
