"""Drafts by a head over the target's hidden states."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from optimist.actors.worker.base import Limits
from optimist.actors.worker.device_proposer import LogitsProposer, Round
from optimist.actors.worker.draft_pass import Indices, draft_pass
from optimist.actors.worker.torch_step import StepInput
from optimist.kernels.device import upload
from optimist.models.draft_head import DraftHead


class HiddenStateHead(LogitsProposer):
    """Has a cache of its own under the target's block table, and one state for each slot.

    At the end of a step the head sees all of its tokens, rejected drafts too: what it writes for those
    is written again before anyone reads it. What it makes of the last token that counts is the first
    draft's; for each further one it goes on from its own state.
    A block that is shared because its tokens are alike may hold a last state that knew another next token:
    that costs speed only.
    """

    hidden = True
    operators = (DraftHead.forward,)

    def __init__(self, head: DraftHead, limits: Limits) -> None:
        self._head = head
        self._cache = head.allocate_cache(limits.num_blocks, limits.block_size)
        self.caches = (self._cache,)
        shape = (limits.max_slots, head.target.config.hidden_size)
        one = torch.zeros(1, dtype=torch.int64, device=self._cache.device)
        self._states = head.target.embed(one).new_zeros(shape)
        self._going: Tensor | None = None

    def logits(self, round: Round, drafted: int) -> Tensor:
        which = round.wanting(drafted)
        slots = upload(round.rows.slots[which].astype(np.int64), self._cache.device)
        if not drafted:
            self._going = self._states.clone()
        assert self._going is not None
        if drafted:
            self._go_on(round, which, slots, drafted)
        return self._head.target.logits(self._going.index_select(0, slots))

    def observe(self, round: Round, step: StepInput, hidden: Tensor, rejected: Tensor) -> None:
        rows, state = round.rows, round.state
        row = upload(np.repeat(np.arange(rows.slots.size), rows.queries), state.device)
        ids = state.tokens_at(step.slots.index_select(0, row), step.positions + 1)
        x = self._head.forward(ids, hidden, step.positions, self._cache, step.metadata)
        last = upload(rows.offsets[1:].astype(np.int64) - 1, state.device) - rejected
        self._states.index_copy_(0, step.slots, x.index_select(0, last))

    def _go_on(self, round: Round, which: Indices, slots: Tensor, drafted: int) -> None:
        """Let the head see the latest draft of these rows."""
        assert self._going is not None
        one = np.ones_like(which)
        step = draft_pass(round.batch, round.rows, round.state, which, one, one * drafted)
        ids = round.state.tokens_at(slots, step.positions + 1)
        states = self._going.index_select(0, slots)
        x = self._head.forward(ids, states, step.positions, self._cache, step.metadata)
        self._going.index_copy_(0, slots, x)
