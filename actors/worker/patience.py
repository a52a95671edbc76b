"""How long drafts are waited for: pure, without clock."""

from __future__ import annotations

from optimist.messages.base import size
from optimist.messages.batches import Batch

FIRST_STEP_S = 0.01
"""what a step is taken to last before one was measured"""

STEP_WEIGHT = 0.2
"""of the newest step in the measured time of a step"""


class Patience:
    """A share of the time of a step.

    Steps with prompts in them are not measured: they take many times as long, and say nothing of what
    a draft can save.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._step_s = FIRST_STEP_S

    @property
    def seconds(self) -> float:
        """That drafts are waited for now."""
        return self._share * self._step_s

    def ran(self, batch: Batch, step_us: int) -> None:
        """A step took so many microseconds."""
        if batch.num_decodes and batch.num_decodes == size(batch.slots):
            self._step_s += STEP_WEIGHT * (step_us / 1e6 - self._step_s)
