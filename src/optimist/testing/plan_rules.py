"""What every plan must keep to, whoever makes it: seen from outside, message by message."""

from __future__ import annotations

from optimist.messages.base import ActorMessage, ints, size
from optimist.messages.control import Resync
from optimist.messages.errors import OptimistError
from optimist.messages.plans import ExactPlan, OptimisticPlan, Plan
from optimist.messages.results import StepResult
from optimist.testing.edges import Edge
from optimist.testing.world import World


class PlanBroken(OptimistError):
    """A plan that no scheduler may make."""


class PlanRules:
    """Watches the messages of a world. Counts steps, their tokens, preemptions and Resyncs on the way."""

    def __init__(self, world: World) -> None:
        self.steps = 0
        self.tokens = 0
        self.preemptions = 0
        self.resyncs = 0
        self.drafted = 0
        self.accepted = 0
        self._setup = world.setup
        self._epoch = -1
        self._planned = -1
        self._settled = -1
        world.edges.watches.append(self._sent)
        world.edges.arrivals.append(self._arrived)

    def _sent(self, edge: Edge, message: ActorMessage) -> None:
        match message:
            case ExactPlan() | OptimisticPlan():
                self._plan(message)
            case Resync():
                self.resyncs += 1
            case StepResult():
                self.drafted += int(ints(message.drafts_run).sum())
                self.accepted += int(ints(message.token_counts).sum()) - size(message.slots)

    def _arrived(self, edge: Edge, message: ActorMessage) -> None:
        if isinstance(message, StepResult) and message.epoch == self._epoch:
            self._settled = max(self._settled, message.step)

    def _plan(self, plan: Plan) -> None:
        if plan.epoch < self._epoch:
            raise PlanBroken(f"epoch {plan.epoch} after {self._epoch}")
        if plan.epoch > self._epoch:
            self._epoch, self._planned, self._settled = plan.epoch, -1, -1
        if plan.step <= self._planned:
            return
        if plan.step != self._planned + 1:
            raise PlanBroken(f"step {plan.step} after {self._planned}")
        self._planned = plan.step
        self.steps += 1
        self.preemptions += sum(opened.generation > 0 for opened in plan.opened)
        self._sizes(plan)

    def _sizes(self, plan: Plan) -> None:
        ahead = plan.step - self._settled
        if ahead > self._setup.depth:
            raise PlanBroken(f"step {plan.step} is {ahead} ahead, depth {self._setup.depth}")
        # bound, exact on prefill rows: query tokens of a plan are held against the budget
        chunks = plan.prefill.seq_lens.exact() - ints(plan.prefill.starts)
        drafts = int(ints(plan.draft_counts).sum())
        tokens = int(chunks.sum()) + size(plan.decode_slots) + drafts
        self.tokens += tokens
        if not 0 < tokens <= self._setup.max_batch_tokens:
            raise PlanBroken(f"step {plan.step}: {tokens} tokens")
        if int(chunks.max(initial=1)) > self._setup.max_chunk or int(chunks.min(initial=1)) < 1:
            raise PlanBroken(f"step {plan.step}: chunks of {chunks.tolist()}")
