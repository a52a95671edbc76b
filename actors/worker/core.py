"""Which batch may run, and what to say about it afterwards: pure, without device or loop."""

from __future__ import annotations

import enum
from typing import NamedTuple

from optimist.actors.worker.base import Outcome
from optimist.messages.base import EMPTY, column
from optimist.messages.batches import Batch
from optimist.messages.results import StepResult


class Verdict(enum.Enum):
    """What to do with a batch that came."""

    RUN = "run"
    DROP = "drop"
    ASK = "ask"


class StepOrder:
    """Lets every step of the newest epoch run once and in order.

    epoch: the newest seen, at least the worker's own incarnation: what an older one left on the
    device is gone. step: the next one to run. dropped: batches that were not run.
    """

    def __init__(self, incarnation: int) -> None:
        self.epoch = incarnation
        self.step = 0
        self.dropped = 0
        self._asked = False

    def judge(self, epoch: int, step: int) -> Verdict:
        """RUN moves on to the next step. ASK is said once for each gap; until it closes, DROP."""
        if epoch > self.epoch:
            self.epoch, self.step, self._asked = epoch, 0, False
        if epoch == self.epoch and step == self.step:
            self.step, self._asked = step + 1, False
            return Verdict.RUN
        self.dropped += 1
        if epoch < self.epoch or step < self.step or self._asked:
            return Verdict.DROP
        self._asked = True
        return Verdict.ASK


class Times(NamedTuple):
    """How long a step ran and what the device waited for before, in microseconds: see StepResult."""

    step_us: int
    gap_us: int = 0
    batch_us: int = 0
    drafts_us: int = 0


def step_result(incarnation: int, batch: Batch, outcome: Outcome, times: Times) -> StepResult:
    """The message that carries an outcome. It copies, so that the device may reuse its buffers."""
    return StepResult(
        incarnation=incarnation,
        epoch=batch.epoch,
        step=batch.step,
        slots=column(outcome.slots),
        generations=column(outcome.generations),
        token_counts=column(outcome.token_counts),
        token_ids=column(outcome.token_ids),
        drafts_run=column(outcome.drafts_run),
        drafts_held=EMPTY if outcome.drafts_held is None else column(outcome.drafts_held),
        logprobs=outcome.logprobs,
        prompt=outcome.prompt,
        **times._asdict(),
    )
