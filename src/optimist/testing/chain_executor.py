"""The network of `chain` behind an engine in one process, and a log of the rounds that it ran."""

from __future__ import annotations

from typing import Self

import torch

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Outcome, Progress, RowDrafts
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.actors.worker.torch_result import TorchTicket
from optimist.messages.batches import Batch
from optimist.testing.by_place import Rounds
from optimist.testing.chain import LENGTH, OTHER, TARGET

_LOG: list[tuple[int, int, int]] = []
"""of each row of each step, the seed of its request, tokens that it chose, and drafts of it"""


class ChainExecutor(TorchExecutor):
    """Runs the small network, and drafts with another of its size."""

    _seeds: dict[int, int]

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        """Nothing is read."""
        made = cls(TARGET, config, draft=OTHER if config.proposer == "draft-model" else None)
        made._seeds = {}
        return made

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> TorchTicket:
        """As always; and what its rows bring is logged."""
        self._seeds |= {opened.slot: opened.sampling.seed for opened in batch.opened}
        ticket, seeds = super().submit(batch, drafts), dict(self._seeds)
        wait = ticket.wait

        def logged() -> Outcome:
            outcome = wait()
            rows = (outcome.slots, outcome.token_counts, outcome.drafts_run)
            for slot, count, ran in zip(*(column.tolist() for column in rows), strict=True):
                _LOG.append((seeds[slot], count, ran))
            return outcome

        ticket.wait = logged  # type: ignore[method-assign]
        return ticket


def clear() -> None:
    """Forget what ran."""
    _LOG.clear()


def rounds(requests: int) -> Rounds:
    """What ran since then. The seed of a request is its number."""
    found, known = Rounds.empty(requests, LENGTH), [0] * requests
    for number, count, ran in _LOG:
        begin = known[number]
        known[number] = begin + count
        # A step behind the last token was on its way already.
        count = min(count, LENGTH - begin)
        if count > 0:
            found.place[number, begin : begin + count] = torch.arange(count)
            found.ran[number, begin : begin + count] = ran
    assert min(known) >= LENGTH
    return found
