"""From a plan to a batch: columns move, nothing is decided.

Rows are ordered decode first, then prefill. Which is which comes from the plan alone, so a prompt
chunk of one token never passes for a decode row, whatever its shape.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from optimist.messages.base import Column, column, ints, size
from optimist.messages.batches import ExactBatch, OptimisticBatch
from optimist.messages.lengths import ExactSeqLens
from optimist.messages.plans import ExactPlan, OptimisticPlan, Plan
from optimist.messages.slots import PrefillRows


def apply(plan: Plan, *, block_size: int, incarnation: int) -> ExactBatch | OptimisticBatch:
    """The batch of a plan. An ExactPlan gives an ExactBatch, an OptimisticPlan an OptimisticBatch.

    block_size: tokens of a KV block. incarnation: of the builder.
    """
    match plan:
        case ExactPlan():
            return _exact(plan, block_size, incarnation)
        case OptimisticPlan():
            return _optimistic(plan, block_size, incarnation)


def _exact(plan: ExactPlan, block_size: int, incarnation: int) -> ExactBatch:
    decodes, lens = size(plan.decode_slots), plan.decode_lens
    starts, ones = _ones(decodes)
    longest = min(decodes, 1)
    if plan.prefill.slots or plan.draft_counts != bytes(4 * decodes):
        queries = np.concatenate([ints(plan.draft_counts) + 1, _chunks(plan.prefill)])
        # bound, exact on prefill rows: of an ExactPlan, where every row is exact
        lens = ExactSeqLens.of(np.concatenate([lens.exact(), plan.prefill.seq_lens.exact()]))
        starts = column(np.concatenate([[0], queries.cumsum()]))
        longest = int(queries.max(initial=0))
    return ExactBatch(
        incarnation=incarnation,
        epoch=plan.epoch,
        step=plan.step,
        opened=plan.opened,
        closed=plan.closed,
        blocks=plan.blocks,
        slots=plan.decode_slots + plan.prefill.slots,
        generations=plan.decode_generations + plan.prefill.generations,
        num_decodes=decodes,
        draft_counts=plan.draft_counts,
        max_query_len=longest,
        max_blocks=_blocks(lens.max(), block_size),
        query_start_loc=starts,
        seq_lens=lens,
        samples=ones + plan.prefill.samples,
        drafts_wanted=plan.drafts_wanted,
    )


@lru_cache
def _ones(rows: int) -> tuple[Column, Column]:
    """Where the queries of so many rows begin if each is of one token, and the total; and 1 for each."""
    return column(np.arange(rows + 1, dtype=np.int32)), column(np.ones(rows, np.int32))


def _optimistic(plan: OptimisticPlan, block_size: int, incarnation: int) -> OptimisticBatch:
    # bound, sizing: columns of the block table that the step gets to see
    longest = max(plan.decode_bound.max(), plan.prefill.seq_lens.max())
    queries = np.concatenate([ints(plan.draft_counts) + 1, _chunks(plan.prefill)])
    return OptimisticBatch(
        incarnation=incarnation,
        epoch=plan.epoch,
        step=plan.step,
        opened=plan.opened,
        closed=plan.closed,
        blocks=plan.blocks,
        slots=plan.decode_slots + plan.prefill.slots,
        generations=plan.decode_generations + plan.prefill.generations,
        num_decodes=size(plan.decode_slots),
        draft_counts=plan.draft_counts,
        max_query_len=int(queries.max(initial=0)),
        max_blocks=_blocks(longest, block_size),
        bound=plan.decode_bound,
        prefill=plan.prefill,
    )


def _chunks(prefill: PrefillRows) -> NDArray[np.int32]:
    # bound, exact on prefill rows: how long the query of a prompt chunk is
    return prefill.seq_lens.exact() - ints(prefill.starts)


def _blocks(tokens: int, block_size: int) -> int:
    return -(-tokens // block_size)
