"""A process is killed, or stands still for a while, at a step of the scenario."""

from __future__ import annotations

import time
from collections.abc import Callable

from .census import NEW, NEXT_LIFE, OLD
from .crew import Crew, Player
from .party import PATIENCE
from .scenario import NEXT, Case, Fault, Side, Step, judge

__all__ = ["run"]

# Seconds that a call is given which a silent peer leaves without an answer.
SHORT = 0.5


def run(crew: Crew, case: Case) -> None:
    """Run one case, and after it the whole scenario without a fault."""
    try:
        _Run(crew, case).run()
    except AssertionError as error:
        raise AssertionError(f"{case}: {error}") from error


class _Run:
    def __init__(self, crew: Crew, case: Case) -> None:
        self.case = case
        self.a, self.b, self.c = crew.players
        self.struck, self.survivor = (
            (self.a, self.b) if case.side is Side.INITIATOR else (self.b, self.a)
        )
        # Where bytes come from, and where they land.
        self.source, self.goal = (self.a, self.b) if case.op == "write" else (self.b, self.a)

    def run(self) -> None:
        for player in (self.a, self.b, self.c):
            player.open()
        self.c.calm(self.survivor.address, self.case.path)
        self.reach(self.case.step)
        STRIKE[self.case.fault](self)
        self.c.end_calm()
        self.settle()
        self.again()
        for player in (self.c, self.a, self.b):
            player.close()

    def reach(self, last: Step) -> None:
        """Every step up to `last`."""
        self.a.allocate(self.seed(self.a))
        for step in Step:
            REACH[step](self)
            if step is last:
                return

    def seed(self, player: Player) -> int:
        return NEW if player is self.source else OLD

    # ---- the steps ----

    def connect(self) -> None:
        assert self.a.connect(self.b.address, self.case.path, PATIENCE) == "done"

    def attach(self) -> None:
        self.b.allocate(self.seed(self.b))
        assert self.a.attach() == "done"

    def submit(self) -> None:
        self.a.submit(self.case.op)

    def land(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.a.let(1)
            first, last = self.goal.landed()
            assert not last, "all of it has landed"
            if first:
                return
        raise AssertionError("nothing lands")

    def notify(self) -> None:
        assert self.a.finish(PATIENCE) == "done"
        assert self.goal.count(OLD, NEW).complete
        self.said += 1
        assert self.a.notify(f"landed {self.said}", PATIENCE) == "done"
        self.b.hear(f"landed {self.said}")

    def close(self) -> None:
        self.goal.fill(OLD)
        self.a.submit(self.case.op)
        self.a.begin_close()

    # ---- the faults ----

    def kill(self) -> None:
        self.struck.kill()
        if self.survivor is self.a:
            self.meet()
        else:
            self.b.lonely(1)
        self.c.more(2)

    def stop(self) -> None:
        self.struck.child.stop()
        if self.survivor is self.a:
            self.meet()
        self.c.more(2)
        self.struck.child.resume()
        if self.struck is self.a:
            self.meet()

    def meet(self) -> None:
        """The initiator makes its next call."""
        verb = NEXT[self.case.step]
        silent = self.case.fault is Fault.STOP and judge(self.case) != {"done"}
        timeout = SHORT if silent else PATIENCE
        arguments = {
            "connect": (self.b.address, self.case.path, timeout),
            "attach": (),
            "transfer": (self.case.op, timeout),
            "finish": (timeout,),
            "notify": ("struck", timeout),
        }[verb]
        if verb == "attach" and self.struck is self.a:
            self.b.allocate(self.seed(self.b))
        end = self.a.ask(verb, *arguments)
        assert end in judge(self.case), f"{verb} ended as {end!r}"
        self.done = end == "done" and verb in ("transfer", "finish")
        if verb == "finish" and end == "PeerError" and self.case.fault is Fault.KILL:
            assert not self.a.known(), "the peer was killed, and the outcome is known"

    done = False
    said = 0

    # ---- what is left ----

    def settle(self) -> None:
        """No wrong byte: old or new in the batch, old outside it, and the source as it was."""
        steps = list(Step)
        for player in (self.a, self.b):
            killed = player is self.struck and self.case.fault is Fault.KILL
            known = player is self.a or steps.index(self.case.step) >= steps.index(Step.ATTACHED)
            if killed or not known:
                continue
            if player is self.goal:
                count = player.count(OLD, NEW)
                assert count.complete if self.done else count.clean, str(count)
            else:
                count = player.count(NEW, NEXT_LIFE)
                assert count.untouched, f"the source changed: {count}"

    def again(self) -> None:
        """The same engines, and a new one for the killed, do all of it without a fault."""
        if self.case.fault is Fault.KILL:
            self.struck.renew()
            self.struck.open()
        for player in (self.a, self.b):
            assert player.unchanged(), "a byte landed after quiet"
            player.drop()
        self.reach(Step.NOTIFIED)
        assert self.a.disconnect() == "done"


REACH: dict[Step, Callable[[_Run], None]] = {
    Step.LISTENING: lambda run: None,
    Step.CONNECTED: _Run.connect,
    Step.ATTACHED: _Run.attach,
    Step.SUBMITTED: _Run.submit,
    Step.LANDING: _Run.land,
    Step.NOTIFIED: _Run.notify,
    Step.CLOSING: _Run.close,
}

STRIKE: dict[Fault, Callable[[_Run], None]] = {Fault.KILL: _Run.kill, Fault.STOP: _Run.stop}
