"""The scheduler as an actor: it takes a message, lets the policy decide, and sends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from optimist.actors.base import Actor
from optimist.actors.config import SchedulerConfig
from optimist.actors.scheduler.core import Core
from optimist.actors.scheduler.options import check_options
from optimist.actors.scheduler.recovery import placed
from optimist.actors.scheduler.settle import News
from optimist.messages.base import ActorMessage
from optimist.messages.control import Resync
from optimist.messages.drafting import Close, Open, Rehearsed
from optimist.messages.errors import MailboxFull
from optimist.messages.plans import ExactPlan, OptimisticPlan, Plan
from optimist.messages.requests import (
    Admit,
    Cancel,
    Grant,
    Placed,
    Retired,
    SchedulerStats,
    Scored,
    Tokens,
)
from optimist.messages.results import Capacity, StepResult
from optimist.transport.base import Ref, send_all

SchedulerMessage = Admit | Cancel | Grant | StepResult | Capacity | Rehearsed | Resync


class Scheduler(Actor[SchedulerMessage]):
    """Plans steps while fewer than `depth` are in flight, and settles their results.

    Raises ConfigError, naming the option, for one that it cannot serve.
    """

    name: ClassVar[str] = "scheduler"
    accepts: ClassVar[tuple[type[ActorMessage], ...]] = (
        Admit,
        Cancel,
        Grant,
        StepResult,
        Capacity,
        Rehearsed,
        Resync,
    )
    emits: ClassVar[tuple[tuple[str, type[ActorMessage]], ...]] = (
        ("builder", ExactPlan),
        ("builder", OptimisticPlan),
        ("proposer", Open),
        ("proposer", Close),
        ("gateway", Placed),
        ("gateway", Scored),
        ("gateway", Tokens),
        ("gateway", Retired),
        ("gateway", Resync),
        ("gateway", SchedulerStats),
        ("worker", Resync),
    )
    eager = (StepResult,)

    def __init__(
        self,
        config: SchedulerConfig,
        incarnation: int,
        *,
        builder: Ref[Plan],
        gateway: Ref[News | Placed | Resync | SchedulerStats],
        worker: Ref[Resync],
        proposer: Ref[Open | Close] | None = None,
        witness: Ref[Placed] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """proposer: told which request is where; None where there is none, or it is on the device.

        witness: told of requests in steps, ahead of these: the gateway, on a way that outlives this process
        where the worker may take it along; None is the usual way.
        """
        super().__init__(incarnation)
        check_options(config)
        self.core = Core(config, incarnation)
        self._builder = builder
        self._gateway = gateway
        self._witness = gateway if witness is None else witness
        self._worker = worker
        self._proposer = proposer
        self._clock = clock

    def started(self) -> None:
        """Ask the gateway for the live requests and the worker for its capacity."""
        ask = Resync(incarnation=self.incarnation, actor=self.name)
        self._gateway.send(ask)
        self._worker.send(ask)

    def receive(self, message: SchedulerMessage) -> None:
        """Take one message; what it makes known to the gateway is sent at once."""
        match message:
            case StepResult():
                self._tell(self.core.settle(message, self._clock()))
            case Admit():
                self._tell(self.core.admit(message))
            case Grant():
                self.core.grant(message)
            case Cancel():
                self._tell(self.core.cancel(message))
            case Rehearsed():
                self._rehearsed(message)
            case Resync(actor="proposer"):
                self._draft(self.core.running())
            case Resync(actor="gateway"):
                self.core.asked()
            case Resync():
                self._replay(message)
            case Capacity():
                self._tell(self.core.capacity(message))
            case _:
                self.core.counters.ignored["message"] += 1
        self._draft(self.core.moved())

    def turn(self) -> float | None:
        """Drop what is too late, plan what can run, and say how things stand."""
        now = self._clock()
        self._tell(self.core.expire(now))
        while (plan := self.core.plan(now)) is not None:
            self._place(plan)
            self._builder.send(plan)
            self._draft(self.core.moved(plan))
        if (stats := self.core.stats(now)) is not None:
            self._gateway.send(stats)
        return self.core.wait(now)

    def check(self) -> None:
        """Raise AssertionError if an invariant does not hold. For tests, between any two messages."""
        self.core.check()

    def check_busy(self) -> None:
        """Raise AssertionError if something could run and nothing is in flight. For tests, after a turn."""
        self.core.check_busy()

    def _place(self, plan: Plan) -> None:
        epoch = self.core.epoch
        assert epoch is not None
        for message in placed(epoch, self.incarnation, plan):
            self._witness.send(message)

    def _replay(self, message: Resync) -> None:
        for plan in self.core.replay(message):
            self._builder.send(plan)

    def _rehearsed(self, message: Rehearsed) -> None:
        device = self.core.device
        if device is None or not device.rehearsed(message):
            self.core.counters.ignored["stale_rehearsal"] += 1

    def _draft(self, messages: Sequence[Open | Close]) -> None:
        """Tell the proposer, if it listens: what it misses costs drafts only."""
        if self._proposer is None:
            return
        for message in messages:
            try:
                self._proposer.send(message)
            except MailboxFull:
                self.core.counters.ignored["mailbox_full"] += 1

    def _tell(self, messages: list[News]) -> None:
        if messages:
            send_all(self._gateway, messages)
