"""The tokens of a step on their way back to the host."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from optimist.actors.worker.base import Outcome
from optimist.actors.worker.no_token import answered
from optimist.actors.worker.prompt_scores import Asked, prompt_scores
from optimist.kernels.device import Device
from optimist.kernels.logprobs import Report
from optimist.kernels.verify import Places, Verified
from optimist.messages.base import column
from optimist.messages.results import Logprobs, PromptScores

Ints = NDArray[np.int32]


class Reported(NamedTuple):
    """Log-probabilities at the places that asked. places: which of the step's, [N].

    counts: alternatives of each, [N].
    """

    places: Ints
    counts: Ints
    report: Report


class Chosen(NamedTuple):
    """What the rows that sample chose. slots, generations: [S]. places, verified: of the step."""

    slots: Ints
    generations: Ints
    places: Places
    verified: Verified
    reported: Reported | None = None


class TorchTicket:
    """A step whose tokens are on their way.

    held: drafts that the device can make for each row next. told: of tokens of prompts, those that were
    asked for.
    """

    def __init__(
        self,
        chosen: Chosen,
        device: Device,
        held: int | None = None,
        told: tuple[Asked, Report] | None = None,
    ) -> None:
        self._chosen = chosen
        self._held = held
        self._told = told
        tensors: list[Tensor] = [*chosen.verified]
        if chosen.reported is not None:
            tensors += chosen.reported.report
        if told is not None:
            tensors += told[1]
        self._reading = device.read(tensors)

    def wait(self) -> Outcome:
        """Take the tokens, which come through the one door from device to host."""
        slots, generations, places, _, reported = self._chosen
        ids, accepted, *reports = self._reading.wait()
        ids, counts = ids.astype(np.int32), accepted.astype(np.int32) + 1
        starts = places.starts
        counts = answered(counts, ids, np.diff(starts))
        within = np.arange(ids.size) - np.repeat(starts[:-1], np.diff(starts))
        kept = within < np.repeat(counts, np.diff(starts))
        return Outcome(
            slots=slots,
            generations=generations,
            token_counts=counts,
            token_ids=ids[kept],
            drafts_run=np.diff(starts) - 1,
            logprobs=None if reported is None else _logprobs(reported, reports[:4], kept),
            drafts_held=None if self._held is None else np.full_like(counts, self._held),
            prompt=None if self._told is None else _told(self._told[0], reports[-4:]),
        )


def _told(asked: Asked, report: list[NDArray[Any]]) -> PromptScores:
    chosen, ranks, top_values, top_ids = report
    return prompt_scores(asked, chosen, ranks, top_ids, top_values)


def _logprobs(reported: Reported, report: list[NDArray[Any]], kept: NDArray[np.bool_]) -> Logprobs:
    """Of the places whose token counts. report: as it was read. kept: [J], of all places of the step."""
    asked = kept[reported.places]
    places, counts = reported.places[asked], reported.counts[asked]
    chosen, ranks, top_values, top_ids = (part[asked] for part in report)
    wanted = np.arange(top_ids.shape[1]) < counts[:, None]
    return Logprobs(
        tokens=column((np.cumsum(kept) - 1)[places]),
        chosen=chosen.astype("<f4").tobytes(),
        ranks=column(ranks),
        counts=column(wanted.sum(-1)),
        top_ids=column(top_ids[wanted]),
        top_values=top_values[wanted].astype("<f4").tobytes(),
    )
