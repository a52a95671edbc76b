"""Proposers that draft on the worker's device: their tokens never visit the host.

They draft at the beginning of the step that verifies the drafts, as many as it has room for. So
no draft is ever stale, and a step without room for drafts pays for none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.actors.worker.step_graphs import Network, StepGraphs
from optimist.actors.worker.torch_rows import Rows
from optimist.actors.worker.torch_sampling import NOTHING, Earlier, SamplingState
from optimist.actors.worker.torch_state import SlotState
from optimist.actors.worker.torch_step import StepInput
from optimist.kernels.device import upload
from optimist.kernels.sampling import PROPOSAL, branch
from optimist.messages.batches import Batch
from optimist.messages.slots import OpenedSlot

Indices = NDArray[np.int64]

Capture = Callable[[Network, int], StepGraphs]
"""captures passes of a network over rows that decode, each with so many tokens beside its last, or fewer"""


class Round(NamedTuple):
    """A step whose drafts are being made. rows: drafts of its decode rows say how many are wanted."""

    batch: Batch
    rows: Rows
    state: SlotState

    @property
    def most(self) -> int:
        """Drafts of the row that wants most."""
        return int(self.rows.drafts.max(initial=0))

    def wanting(self, more_than: int) -> Indices:
        """Decode rows that want more drafts than these, [N]."""
        return np.flatnonzero(self.rows.drafts > more_than)


class DeviceProposer:
    """Says what may follow. What it says is verified: a wrong one costs speed, never correctness.

    It is a LogitsProposer, from whose logits drafts are drawn, or a TokenProposer, which names them.

    caches: KV caches of its own, laid out like the target's and under the same block table.
    hidden: whether it wants to `observe` what the target computed.
    operators: functions that it tells of rows, as those of an Executor.
    """

    operators: ClassVar[tuple[Callable[..., Any], ...]] = ()
    caches: tuple[Tensor, ...] = ()
    hidden: bool = False

    def open_slot(self, opened: OpenedSlot) -> None:
        """A request moves in."""

    def close_slots(self, batch: Batch, state: SlotState) -> None:
        """Requests leave the slots `batch.closed`, whose tokens and blocks are still where they were.

        Their blocks may be in the prefix cache, and others of this very batch may build on them.
        """

    def capture(self, graphs: Capture) -> None:
        """The executor captures its steps: what passes may be captured too?"""

    def begin(self, round: Round) -> None:
        """A step begins, also one without drafts."""

    def observe(self, round: Round, step: StepInput, hidden: Tensor, rejected: Tensor) -> None:
        """A step ends. hidden: the target's residual stream behind its last layer, [T, E].

        rejected: drafts of each row that were not accepted, [R]. The slots hold what was chosen.
        """


class LogitsProposer(DeviceProposer, ABC):
    """Says how likely each token is to follow."""

    @abstractmethod
    def logits(self, round: Round, drafted: int) -> Tensor:
        """Of the next draft of the rows `round.wanting(drafted)`, [N, V] float32 or wider.

        Called for drafted 0, 1, ... in turn. The drafts so far stand behind the last token in
        `round.state.token_ids`.
        """


class TokenProposer(DeviceProposer, ABC):
    """Names the tokens that follow, and says of none how likely it is."""

    @abstractmethod
    def tokens(self, round: Round) -> Tensor:
        """Drafts of each decode row, [D, round.most] integers in the vocabulary; all of them for the row
        that wants most, and of the others the first.
        """


class Drafter:
    """Lets a device proposer draft, by the parameters of the requests. coupled: see `draft`."""

    def __init__(self, proposer: DeviceProposer, sampling: SamplingState, *, coupled: bool) -> None:
        self.proposer = proposer
        self._sampling = sampling
        self._coupled = coupled

    def draft(self, round: Round) -> Tensor | None:
        """Put drafts behind the last token of each decode row.

        Coupled, they are drawn with the very noise that the target's own draw will use, so that both
        tend to agree; nothing is returned. Otherwise noise of its own is used, and what the drafts
        were drawn from is returned: [J, V], a row for each place of the step. Nothing is returned for
        drafts that were named, either: they are certain.
        """
        self.proposer.begin(round)
        if isinstance(self.proposer, TokenProposer):
            self._name(round, self.proposer)
            return None
        assert isinstance(self.proposer, LogitsProposer)
        return self._drawn(round, self.proposer)

    @staticmethod
    def _name(round: Round, proposer: TokenProposer) -> None:
        if not round.most:
            return
        drafts, state = round.rows.drafts, round.state
        wanted = np.flatnonzero(np.arange(round.most) < drafts[:, None])
        ids = proposer.tokens(round).reshape(-1).index_select(0, upload(wanted, state.device))
        state.draft(round.rows.slots[: drafts.size], drafts, ids)

    def _drawn(self, round: Round, proposer: LogitsProposer) -> Tensor | None:
        drafts = np.zeros(0) if not round.most else round.rows.drafts
        device = round.state.device
        chosen = torch.zeros((drafts.size, round.most), dtype=torch.int64, device=device)
        proposal: Tensor | None = None
        for i in range(round.most):
            which = round.wanting(i)
            slots = round.rows.slots[which]
            logits = proposer.logits(round, i)
            ids, spread = self._draw(round, which, i, logits, chosen)
            # What is no token is a draft like any other, and not accepted: see `distribution`.
            ids = ids.clamp(min=0)
            at = upload(which, device)
            chosen[:, i].index_copy_(0, at, ids)
            round.state.write(upload(slots.astype(np.int64), device), i + 1, ids)
            if spread is not None:
                places = upload(self._places(round)[which] + i, device)
                if proposal is None:
                    proposal = spread.new_zeros((len(round.rows.places), spread.shape[1]))
                proposal.index_copy_(0, places, spread)
        return proposal

    @staticmethod
    def _places(round: Round) -> Indices:
        """The first place of each decode row, [D]."""
        counts = round.rows.drafts.astype(np.int64) + 1
        return np.cumsum(counts) - counts

    def _draw(
        self, round: Round, which: Indices, drafted: int, logits: Tensor, chosen: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Tokens of these rows, [N], and what they were drawn from, [N, V], unless they are coupled."""
        slots, kernels = round.rows.slots[which], round.state.kernels
        if self._coupled and self._sampling.greedy(slots):
            return kernels.greedy(logits), None
        at = upload(slots.astype(np.int64), round.state.device)
        begin = round.state.computed.index_select(0, at).long() + 1
        earlier = self._earlier(slots, which, drafted, chosen)
        rows = self._sampling.rows(slots, begin + drafted, earlier)
        if self._coupled:
            return kernels.sample(logits, rows), None
        rows = rows._replace(seed=branch(rows.seed, begin, PROPOSAL))
        return kernels.sample(logits.clone(), rows), kernels.distribution(logits, rows)

    def _earlier(
        self, slots: NDArray[np.int32], which: Indices, drafted: int, chosen: Tensor
    ) -> Earlier:
        counted = np.flatnonzero(self._sampling.penalised(slots))
        if not drafted or not counted.size:
            return NOTHING
        before = chosen.index_select(0, upload(which[counted], chosen.device))[:, :drafted]
        return Earlier(np.repeat(counted, drafted), before.reshape(-1))
