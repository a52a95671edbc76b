"""The tokens of a step on their way back to the host."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from optimist.actors.worker.base import Outcome
from optimist.kernels.logprobs import Report
from optimist.kernels.sync_check import readback
from optimist.messages.base import column
from optimist.messages.results import Logprobs

Ints = NDArray[np.int32]


class Reported(NamedTuple):
    """Log-probabilities of the rows that asked: which of the sampling rows, how many alternatives."""

    rows: Ints
    counts: Ints
    report: Report


class TorchTicket:
    """A step whose tokens [S] are on the device."""

    def __init__(
        self, slots: Ints, generations: Ints, ids: Tensor, reported: Reported | None
    ) -> None:
        self._slots = slots
        self._generations = generations
        self._ids = ids
        self._reported = reported

    def wait(self) -> Outcome:
        """Read the tokens, through the one door from device to host."""
        ids = readback(self._ids).astype(np.int32)
        return Outcome(
            slots=self._slots,
            generations=self._generations,
            token_counts=np.ones_like(ids),
            token_ids=ids,
            drafts_run=np.zeros_like(ids),
            logprobs=None if self._reported is None else _logprobs(self._reported),
        )


def _logprobs(reported: Reported) -> Logprobs:
    report, counts = reported.report, reported.counts
    top_ids, top_values = readback(report.top_ids), readback(report.top_values)
    wanted = np.arange(top_ids.shape[1]) < counts[:, None]
    return Logprobs(
        tokens=column(reported.rows),
        chosen=readback(report.chosen).astype("<f4").tobytes(),
        ranks=column(readback(report.ranks)),
        counts=column(wanted.sum(-1)),
        top_ids=column(top_ids[wanted]),
        top_values=top_values[wanted].astype("<f4").tobytes(),
    )
