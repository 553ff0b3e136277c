"""A whole run: every task, every process that takes part, and the machine it was made on."""

from __future__ import annotations

import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import count, groupby
from pathlib import Path
from typing import NamedTuple

from ...config import from_environment
from ...errors import PeerError, UsageError
from ..machine import read_machine
from ..result import describe
from ..session import open_session
from ..walk import PASS_BYTES
from .asked import OURS, Rival
from .measure import measure
from .memory import BATCH, OBJECT, measure_memory, pool_for
from .messages import House, Open
from .party import Party, open_party
from .passes import Ground, keeping, passes
from .result import Row, StoreResult
from .tasks import TASKS, Role, Task
from .yardstick import Yardstick

__all__ = ["Plan", "run_store"]

Track = Callable[[list[Task]], Iterable[Task]]

ANYWHERE = "127.0.0.1:0"
STREAMS = 8  # most that a transfer is cut over
KEPT_AT_ONCE = 128
SPARE = 0.8  # of a pool, so that nobody has to leave
IMPORTS = 3
TIMED_IMPORT = """
import time
begin = time.perf_counter()
from kvferry import Store
print(time.perf_counter() - begin)
"""


class Plan(NamedTuple):
    """size     bytes a side, and at most so many of one size of objects are kept
    seconds  of measuring, a task; five rounds are made in any case
    objects  of which the cost in memory is measured; 0: it is not
    tasks    in which order
    """

    size: int
    seconds: float
    objects: int
    tasks: tuple[Task, ...] = TASKS

    @property
    def pool(self) -> int:
        """Bytes: for what is kept, and for a pass of puts."""
        return int((self.size + min(self.size, PASS_BYTES)) / SPARE)


def run_store(plan: Plan, track: Track = iter, beside: Sequence[Rival] = ()) -> StoreResult:
    """Carry out `plan` in processes of its own.

    track   is given all tasks and gives them back one by one: it may show how far we are
    beside  other stores, in the same run; one that is not there is told in the result

    Raises PeerError when a process of ours does not start or ends, PathRefused where this machine
    has not got mapped memory or loopback sockets.
    """
    largest = max(task.block * task.batch for task in plan.tasks)
    if plan.size < largest:
        raise UsageError(f"a side of {plan.size} bytes has no room for {largest}", cause="size")
    absent: dict[str, str] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kvferry-bench-"))
        far = any(Role.FAR in task.roles for task in plan.tasks)
        opened = open_ours(plan.size, plan.pool, Path(folder), far=far)
        ours = stack.enter_context(opened)
        rivals = list(_open_rivals(plan, beside, stack, absent))
        session = stack.enter_context(open_session(plan.size))
        streams = min(from_environment().copy_engines, STREAMS)
        yardstick = stack.enter_context(closing(Yardstick(session, streams)))
        parties = [*ours, *rivals]
        rows = _rows(plan, parties, yardstick, track)
        used = {each.name: round(each.cpu, 3) for each in parties}
    return StoreResult(
        machine=describe(read_machine(), {}),
        settings={"size": plan.size, "pool": plan.pool, "seconds": plan.seconds},
        rows=rows,
        memory=measure_memory(plan.objects, _opening) if plan.objects else None,
        absent=absent,
        cpu_s=used,
        import_s=round(min(_import_seconds() for _ in range(IMPORTS)), 4),
    )


@contextmanager
def open_ours(
    size: int, pool: int, folder: Path, objects: int | None = None, far: bool = True
) -> Iterator[list[Party]]:
    """The process that is the node, a user on its host, and one that only tcp leads to."""
    token = secrets.token_hex().encode()
    socket = f"unix://{folder}/node"
    node = House(token, listen=[socket, ANYWHERE], objects=objects)
    with ExitStack() as stack:

        def start(role: Role, house: House) -> Party:
            wanted = Open(size, pool, str(folder), house)
            return stack.enter_context(open_party(OURS, role.value, role, wanted))

        first = start(Role.EMBEDDED, node)
        parties = [first, start(Role.MAPPED, House(token, socket))]
        if far:
            (tcp,) = (each for each in first.opened.addresses if not each.startswith("unix:"))
            parties.append(start(Role.FAR, House(token, f"kv://{tcp}", "tcp/host")))
        yield parties


def _open_rivals(
    plan: Plan, beside: Sequence[Rival], stack: ExitStack, absent: dict[str, str]
) -> Iterator[Party]:
    for asked in beside:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kvferry-bench-"))
        wanted = Open(plan.size, plan.pool, folder)
        try:
            yield stack.enter_context(open_party(asked, asked.name, Role.RIVAL, wanted))
        except (UsageError, PeerError) as error:
            absent[asked.name] = str(error)


def _rows(plan: Plan, parties: Sequence[Party], yardstick: Yardstick, track: Track) -> list[Row]:
    rows: list[Row] = []
    eras = count()
    tasks = iter(track(list(plan.tasks)))
    for (block, full), stage in groupby(tasks, lambda task: (task.block, task.full)):
        ground = Ground.of(block, plan.size)
        owners = [each for each in parties if each.role in (Role.EMBEDDED, Role.RIVAL)]
        if full:
            _stuff(parties[0], ground, plan.pool, next(eras))
        else:
            for each in owners:
                _keep(each, ground)
        for task in stage:
            rows += measure(task, ground, parties, yardstick, eras, plan.seconds)
        if not full:
            for each in owners:
                each.clear(block, ground.kept)
    return rows


def _keep(party: Party, ground: Ground) -> None:
    """Raises PeerError unless all that is to be read is there."""
    party.fill()
    for calls in keeping(ground, KEPT_AT_ONCE):
        good = party.run(calls).good
        if good < len(calls.numbers):
            raise PeerError(
                f"{party.name} stored {good} of {len(calls.numbers)} objects", cause="bench"
            )


def _stuff(node: Party, ground: Ground, pool: int, era: int) -> None:
    """Put so many objects that others have to leave."""
    task = next(task for task in TASKS if task.block == ground.block and task.puts)
    done = 0
    node.fill()
    for calls in passes(task, ground, era):
        node.run(calls)
        done += calls.bytes
        if done > pool:
            return


def _opening(objects: int, room: int) -> tuple[Party, Party, Callable[[], None]]:
    stack = ExitStack()
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kvferry-bench-"))
    opened = open_ours(BATCH * OBJECT, pool_for(objects), Path(folder), room, far=False)
    try:
        node, user = stack.enter_context(opened)
    except BaseException:
        stack.close()
        raise
    return node, user, stack.close


def _import_seconds() -> float:
    run = subprocess.run(
        [sys.executable, "-c", TIMED_IMPORT], capture_output=True, check=True, timeout=60
    )
    return float(run.stdout)
