"""The tokens of a step: drawn at every place, and of the drafts as many accepted as verification says."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.actors.worker.torch_result import Chosen, Reported
from optimist.actors.worker.torch_sampling import NOTHING, Earlier, SamplingState
from optimist.kernels.contract import Kernels
from optimist.kernels.device import upload
from optimist.kernels.logprobs import logprobs
from optimist.kernels.verify import Noise, Places, Verified

Ints = NDArray[np.int32]


class Choice:
    """Chooses the tokens of steps. verify: as in WorkerConfig."""

    def __init__(self, sampling: SamplingState, verify: str, kernels: Kernels) -> None:
        self._sampling = sampling
        self._kernels = kernels
        self._judge = {"rejection": kernels.reject, "block": kernels.block}.get(verify)

    def choose(
        self,
        slots: Ints,
        generations: Ints,
        places: Places,
        positions: Tensor,
        logits: Tensor,
        proposal: Tensor | None,
    ) -> Chosen:
        """Of rows in these slots, [S] each. positions: of the token that each place yields, [J] int64.

        logits: [J, V], overwritten. proposal: what drafts were drawn from, [J, V]; None: they are certain.
        """
        owners = np.repeat(slots, np.diff(places.starts))
        alternatives = self._sampling.alternatives(owners)
        asked = np.flatnonzero(alternatives >= 0)
        raw = logits.index_select(0, upload(asked, logits.device)) if asked.size else None
        verified = self._verify(owners, places, positions, logits, proposal)
        if self._sampling.penalised(owners).any():
            self._count(owners, places, verified)
        if raw is None:
            return Chosen(slots, generations, places, verified)
        counts = alternatives[asked]
        ids = verified.ids.index_select(0, upload(asked, logits.device)).clamp(min=0)
        found = logprobs(raw, ids, int(counts.max()))
        reported = Reported(asked.astype(np.int32), counts, found)
        return Chosen(slots, generations, places, verified, reported)

    def _count(self, owners: Ints, places: Places, verified: Verified) -> None:
        """Remember how often tokens were chosen."""
        starts = upload(places.starts, places.row.device)
        within = torch.arange(len(owners), device=places.row.device)
        within = within - starts.index_select(0, places.row)
        valid = within <= verified.accepted.index_select(0, places.row)
        self._sampling.chosen(owners, verified.ids.clamp(min=0), valid)

    def _verify(
        self,
        owners: Ints,
        places: Places,
        positions: Tensor,
        logits: Tensor,
        proposal: Tensor | None,
    ) -> Verified:
        kernels = self._kernels
        if self._sampling.greedy(owners):
            return kernels.compare(kernels.greedy(logits), places)
        earlier = earlier_drafts(places, self._sampling.penalised(owners))
        rows = self._sampling.rows(owners, positions, earlier)
        # Without drafts every way of judging is sampling, and sampling knows neither rounding nor rounds.
        if self._judge is None or not places.most:
            return kernels.compare(kernels.sample(logits, rows), places)
        noise = Noise(rows.seed, rows.position)
        return self._judge(kernels.distribution(logits, rows), proposal, places, noise)


def earlier_drafts(places: Places, counted: NDArray[np.bool_]) -> Earlier:
    """For each place whose row counts its tokens, [J] bool, the drafts of the row before it."""
    starts = places.starts.astype(np.int64)
    before = np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))
    before[~counted] = 0
    if not before.any():
        return NOTHING
    ends = np.cumsum(before)
    where = np.repeat(np.arange(starts[-1]), before)
    within = np.arange(ends[-1]) - np.repeat(ends - before, before)
    source = np.repeat(np.repeat(starts[:-1], np.diff(starts)), before) + within
    drafts = places.drafts
    return Earlier(where, drafts.index_select(0, upload(source, drafts.device)))
