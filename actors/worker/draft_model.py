"""Drafts by a second, smaller model with the same vocabulary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from optimist.actors.worker.base import Limits
from optimist.actors.worker.closing_pass import exact_closing, optimistic_closing
from optimist.actors.worker.device_proposer import Capture, LogitsProposer, Round
from optimist.actors.worker.draft_pass import Indices, hidden_of
from optimist.actors.worker.step_graphs import Network, StepGraphs
from optimist.actors.worker.torch_state import SlotState
from optimist.kernels.device import upload
from optimist.messages.base import ints
from optimist.messages.batches import Batch, ExactBatch
from optimist.messages.errors import ConfigError
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.slots import OpenedSlot
from optimist.models.config import ModelConfig
from optimist.models.llama import Llama

CATCH_UP = 16
"""tokens that a row may be behind before it is brought up to date without drafting"""


def check_draft_model(draft: ModelConfig, target: ModelConfig, max_model_len: int) -> None:
    """Raise ConfigError, naming the option, for a model that cannot draft for the target."""
    if draft.vocab_size != target.vocab_size:
        raise ConfigError(
            f"worker.draft_model: expected a vocabulary of {target.vocab_size} tokens as in "
            f"worker.model, got {draft.vocab_size}"
        )
    if draft.max_model_len < max_model_len:
        raise ConfigError(
            f"worker.draft_model: expected a model made for {max_model_len} tokens or more, got one "
            f"for {draft.max_model_len}; lower max_model_len, or take another"
        )


def check_draft_tokens(draft: str, target: str) -> None:
    """Raise ConfigError, naming the first, for models at these paths that have different tokens."""
    from optimist.models.same_tokens import first_difference

    if (found := first_difference(target, draft)) is not None:
        token, wanted, got = found
        raise ConfigError(
            f"worker.draft_model: expected the tokens of worker.model, where {token} is {wanted!r}, "
            f"got {got!r} in {draft}; take a model with the same tokenizer"
        )


class DraftModel(LogitsProposer):
    """Has a cache of its own under the target's block table.

    It computes prompt chunks in the step in which the target does, and tokens of decode rows when
    it drafts for them. The host knows how many of those it lacks at most: one more for each step
    without drafts, and the last draft of a round whose drafts were all accepted. Computing a token
    again writes what is there already. What a request lacks when it leaves is computed then: the prefix
    cache may give its blocks to others, who compute nothing of what is in them.
    """

    operators = (Llama.hidden,)

    def __init__(self, model: Llama, limits: Limits) -> None:
        self._model = model
        self._cache = model.allocate_cache(limits.num_blocks, limits.block_size)
        self.caches = (self._cache,)
        self._behind = np.zeros(limits.max_slots, np.int64)
        self._reach = np.zeros(limits.max_slots, np.int32)
        self._first: Tensor | None = None
        self._network = Network(model, self._cache)
        self._graphs: StepGraphs | None = None

    def capture(self, graphs: Capture) -> None:
        # A row that drafts in each step lacks a token where the last round was all accepted.
        self._graphs = graphs(self._network, 1)

    def open_slot(self, opened: OpenedSlot) -> None:
        self._behind[opened.slot] = 0

    def close_slots(self, batch: Batch, state: SlotState) -> None:
        closed = ints(batch.closed).astype(np.int64)
        behind = self._behind[closed]
        if not behind.any():
            return
        leaving, queries = closed[behind > 0], behind[behind > 0]
        reach = self._reach[leaving]
        if isinstance(batch, ExactBatch):
            step = exact_closing(state, leaving, queries, ExactSeqLens.of(reach))
        else:
            step = optimistic_closing(state, leaving, queries, SeqLensUpperBound.of(reach))
        self._model.hidden(step.ids, step.positions, self._cache, step.metadata)

    def begin(self, round: Round) -> None:
        """One pass over prompt chunks, and over decode rows that draft or lack too much."""
        rows, slots = round.rows, round.rows.slots
        decodes = np.arange(slots.size) < rows.num_decodes
        drafts = np.zeros(slots.size, np.int64)
        drafts[: rows.num_decodes] = rows.drafts
        behind = self._behind[slots]
        queries = np.where(decodes, behind + 1, rows.queries)
        which = np.flatnonzero(~decodes | (drafts > 0) | (behind >= CATCH_UP))
        self._first = self._pass(round, which, queries, drafts) if which.size else None
        computed = np.zeros(slots.size, np.bool_)
        computed[which] = True
        # The token of a step that drafts nothing is computed next time, like the last draft.
        left = np.where(computed, drafts > 0, behind + 1)
        self._behind[slots] = np.where(decodes, left, 0)
        self._reach[slots] = _reach(round.batch)

    def logits(self, round: Round, drafted: int) -> Tensor:
        if not drafted:
            assert self._first is not None
            return self._first
        which = round.wanting(drafted)
        one = np.ones_like(which)
        x = hidden_of(self._network, self._graphs, round, which, one, one + drafted)
        return self._model.logits(x)

    def _pass(self, round: Round, which: Indices, queries: Indices, drafts: Indices) -> Tensor:
        queries, wanted = queries[which], drafts[which] > 0
        ahead = np.where(which < round.rows.num_decodes, 1, queries)
        x = hidden_of(self._network, self._graphs, round, which, queries, ahead)
        last = upload((np.cumsum(queries) - 1)[wanted], round.state.device)
        return self._model.logits(x.index_select(0, last))


def _reach(batch: Batch) -> NDArray[np.int32]:
    """Tokens that its rows reach at most, [R]."""
    if isinstance(batch, ExactBatch):
        return batch.seq_lens.exact()
    # bound, sizing: shape of a last pass when the request leaves; device lengths decide what it computes
    decodes = batch.bound.sizing_array(reader="worker.draft_model")
    # bound, exact on prefill rows: the same shape, of prompt chunks
    return np.concatenate([decodes, batch.prefill.seq_lens.exact()])
