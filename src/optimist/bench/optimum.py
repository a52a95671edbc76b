"""How many drafts of a device proposer are accepted, beside how many could be at best.

Nobody who draws a draft from q for a place where the target draws from p has it accepted more often
than with probability sum(min(p, q)). Both distributions are on the device in the same step; working
the sum out costs time, so that only this measurement does it.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, ClassVar

import anyio
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.device_proposer import DeviceProposer, Drafter, Indices, Round
from optimist.actors.worker.torch_choice import Choice, earlier_drafts
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.actors.worker.torch_sampling import SamplingState
from optimist.bench.prose import passages
from optimist.engine import Engine
from optimist.kernels.contract import Kernels
from optimist.kernels.verify import Places, Verified
from optimist.messages.params import SamplingParams
from optimist.models.llama import Llama

TOKENS, DRAFTS = 48, 3

CHATS_AT_ONCE = 144
"""which bring more than 5,000 drafts to try"""

ASKED, PIECE = "What is said here?", 160
"""of each, with so many letters of prose"""


class Tally:
    """Sums over all places that were reached and had a draft: places, drafts accepted, sum(min(p, q)) and
    the square of that.

    spread: what the drafts of the present step were drawn from, [J, V], None without drafts.
    """

    def __init__(self) -> None:
        self.sums = torch.zeros(4, dtype=torch.float64)
        self.spread: Tensor | None = None

    def said(self) -> dict[str, Any]:
        """As people read it: accepted and optimum are shares of the drafts tried, with standard errors."""
        tried, accepted, best, squared = self.sums.tolist()
        many = max(tried, 1.0)
        share, optimum = accepted / many, best / many
        return {
            "tried": int(tried),
            "accepted": round(share, 4),
            "accepted_error": round(sqrt(share * (1 - share) / many), 4),
            "optimum": round(optimum, 4),
            "optimum_error": round(sqrt(max(squared / many - optimum**2, 0.0) / many), 4),
        }


class Watched(TorchExecutor):
    """Runs steps as ever, and works the optimum out beside them. tallies: of all that were made."""

    tallies: ClassVar[list[Tally]] = []

    def __init__(self, model: Llama, config: WorkerConfig, **more: Any) -> None:
        """more: as of TorchExecutor."""
        super().__init__(model, config, **more)
        tally = Tally()
        self.tallies.append(tally)
        if self._drafter is not None:
            own, coupled = self._drafter.proposer, config.verify == "sample"
            self._drafter = _Drafter(own, self._sampling, tally, coupled=coupled)
            self._choice = _Choice(self._sampling, config.verify, model.kernels, tally)


class _Drafter(Drafter):
    def __init__(
        self, proposer: DeviceProposer, sampling: SamplingState, tally: Tally, *, coupled: bool
    ) -> None:
        super().__init__(proposer, sampling, coupled=coupled)
        self.tally = tally

    def draft(self, round: Round) -> Tensor | None:
        self.tally.spread = None
        return super().draft(round)

    def _draw(
        self, round: Round, which: Indices, drafted: int, logits: Tensor, chosen: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        kept = logits.clone()
        ids, spread = super()._draw(round, which, drafted, logits, chosen)
        slots = round.rows.slots[which]
        at = torch.from_numpy(slots.astype(np.int64))
        begin = round.state.computed.index_select(0, at).long() + 1
        earlier = self._earlier(slots, which, drafted, chosen)
        rows = self._sampling.rows(slots, begin + drafted, earlier)
        drawn = round.state.kernels.distribution(kept, rows)
        if self.tally.spread is None:
            self.tally.spread = drawn.new_zeros((len(round.rows.places), drawn.shape[1]))
        places = torch.from_numpy(self._places(round)[which] + drafted)
        self.tally.spread.index_copy_(0, places, drawn)
        return ids, spread


class _Choice(Choice):
    def __init__(
        self, sampling: SamplingState, verify: str, kernels: Kernels, tally: Tally
    ) -> None:
        super().__init__(sampling, verify, kernels)
        self.tally = tally

    def _verify(
        self,
        owners: NDArray[np.int32],
        places: Places,
        positions: Tensor,
        logits: Tensor,
        proposal: Tensor | None,
    ) -> Verified:
        kept = logits.clone()
        verified = super()._verify(owners, places, positions, logits, proposal)
        if self.tally.spread is not None:
            earlier = earlier_drafts(places, self._sampling.penalised(owners))
            rows = self._sampling.rows(owners, positions, earlier)
            target = self._kernels.distribution(kept, rows)
            best = torch.minimum(target, self.tally.spread).sum(1)
            starts = torch.from_numpy(places.starts).index_select(0, places.row)
            within = torch.arange(len(owners)) - starts
            reached = within <= verified.accepted.index_select(0, places.row)
            reached &= within < places.counts.index_select(0, places.row)
            accepted = verified.accepted.sum()
            best = best.double() * reached
            self.tally.sums += torch.stack(
                (reached.sum(), accepted, best.sum(), best.square().sum())
            )
        return verified


async def measure(proposer: str, options: dict[str, Any], temperature: float) -> dict[str, Any]:
    """Of a device proposer, on chats at this temperature. options: of an Engine, such as model."""
    async with (
        Engine(
            placement="inline",
            executor="optimist.bench.optimum:Watched",
            proposer=proposer,
            draft_tokens=DRAFTS,
            **options,
        ) as engine,
        anyio.create_task_group() as group,
    ):
        for number, asked in enumerate(_chats(CHATS_AT_ONCE)):
            params = SamplingParams(max_tokens=TOKENS, temperature=temperature, seed=number)
            group.start_soon(engine.complete, asked, params)
    return Watched.tallies.pop().said()


def _chats(count: int) -> list[list[dict[str, str]]]:
    """So many different ones: about parts of the shipped prose."""
    prose = " ".join(passages())
    step = len(prose) // count
    pieces = (prose[step * number : step * number + PIECE] for number in range(count))
    return [[{"role": "user", "content": f"{ASKED}\n\n{piece}"}] for piece in pieces]
