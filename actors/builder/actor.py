"""The metadata builder as an actor: it knows which step comes next, and nothing else."""

from __future__ import annotations

from typing import ClassVar

from optimist.actors.base import Actor
from optimist.actors.builder.apply import apply
from optimist.actors.config import BuilderConfig
from optimist.messages.base import ActorMessage
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.control import Resync
from optimist.messages.errors import ConfigError
from optimist.messages.plans import ExactPlan, OptimisticPlan, Plan
from optimist.transport.base import Ref


class Builder(Actor[Plan]):
    """Turns each plan into a batch, in order.

    A newborn builder asks for the unsettled plans and goes on from the first plan it sees. From then
    on a missing step is asked for and never guessed: later plans are left out until it comes, since the
    scheduler sends them again behind it. A step seen before is built again, for a worker that missed it.
    """

    name: ClassVar[str] = "builder"
    accepts: ClassVar[tuple[type[ActorMessage], ...]] = (ExactPlan, OptimisticPlan)
    emits: ClassVar[tuple[tuple[str, type[ActorMessage]], ...]] = (
        ("worker", ExactBatch),
        ("worker", OptimisticBatch),
        ("scheduler", Resync),
    )
    eager = accepts

    def __init__(
        self,
        config: BuilderConfig,
        incarnation: int,
        *,
        worker: Ref[Batch],
        scheduler: Ref[Resync],
    ) -> None:
        super().__init__(incarnation)
        if config.block_size < 1:
            raise ConfigError(f"builder.block_size: expected >= 1, got {config.block_size}")
        self._block_size = config.block_size
        self._worker = worker
        self._scheduler = scheduler
        self._epoch = 0
        self._next = 0
        self._asked = False
        self.ignored = 0
        """plans of a dead epoch, plans behind a gap, and messages of a kind it does not take"""

    def started(self) -> None:
        """Ask for the plans that a predecessor may have lost."""
        self._scheduler.send(Resync(incarnation=self.incarnation, actor=self.name))

    def receive(self, message: Plan) -> None:
        """Build one plan, or ask for the one that is missing before it."""
        match message:
            case ExactPlan() | OptimisticPlan():
                self._take(message)
            case _:
                self.ignored += 1

    def _take(self, plan: Plan) -> None:
        if plan.epoch < self._epoch:
            self.ignored += 1
        elif self._in_order(plan):
            self._epoch, self._next, self._asked = plan.epoch, max(self._next, plan.step + 1), False
            self._worker.send(
                apply(plan, block_size=self._block_size, incarnation=self.incarnation)
            )
        else:
            self._ask()

    def _in_order(self, plan: Plan) -> bool:
        """Whether no step is missing before this plan; moves on to its epoch."""
        newborn = self._epoch == 0
        if plan.epoch > self._epoch:
            self._epoch, self._next, self._asked = plan.epoch, 0, False
        return newborn or plan.step <= self._next

    def _ask(self) -> None:
        self.ignored += 1
        if not self._asked:
            self._asked = True
            self._scheduler.send(
                Resync(
                    incarnation=self.incarnation,
                    actor=self.name,
                    epoch=self._epoch,
                    step=self._next,
                )
            )
