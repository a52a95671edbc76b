"""A pass of a device proposer over some rows of a step, placed like the step itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from optimist.actors.worker.device_proposer import Round
from optimist.actors.worker.step_graphs import Network, StepGraphs
from optimist.actors.worker.torch_rows import Rows, longest
from optimist.actors.worker.torch_state import SlotState
from optimist.actors.worker.torch_step import StepInput
from optimist.kernels.device import upload
from optimist.kernels.metadata import ExactMetadata, Metadata, OptimisticMetadata
from optimist.kernels.place import Placed
from optimist.messages.batches import Batch, ExactBatch
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound

Indices = NDArray[np.int64]


def draft_pass(
    batch: Batch, rows: Rows, state: SlotState, which: Indices, queries: Indices, ahead: Indices
) -> StepInput:
    """The last `queries` tokens of some rows, up to `ahead` behind what the target has computed.

    which: rows of the step, ascending, [N]. queries, ahead: tokens, [N]. Its metadata is of the kind
    that the step's is: a pass knows no more about lengths than the step does.
    """
    device = state.device
    slots = upload(rows.slots[which].astype(np.int64), device)
    seq_lens = state.computed.index_select(0, slots) + upload(ahead.astype(np.int32), device)
    # bound, sizing: columns of the block table to gather; device lengths choose among them
    placed, shared = placed_pass(state, slots, queries, seq_lens, batch.max_blocks)
    metadata = _metadata(
        batch,
        rows,
        which,
        ahead,
        **shared,
        max_seq_len=longest(batch),
        num_decodes=int((which < rows.num_decodes).sum()),
        is_prefilling=which >= rows.num_decodes,
    )
    return StepInput(placed.ids, placed.positions, slots, seq_lens, metadata)


def placed_pass(
    state: SlotState, slots: Tensor, queries: Indices, seq_lens: Tensor, columns: int
) -> tuple[Placed, dict[str, Any]]:
    """Where the tokens of such a pass are, and what any metadata says of them."""
    offsets = np.concatenate(([0], np.cumsum(queries))).astype(np.int32)
    starts = upload(offsets.copy(), state.device)
    row = upload(np.repeat(np.arange(queries.size), queries), state.device)
    table = state.block_table[:, :columns].index_select(0, slots)
    size = state.cache.shape[-2]
    placed = state.kernels.place(state.token_ids, slots, starts, seq_lens, table, size, row=row)
    return placed, {
        "query_start_loc": starts,
        "seq_lens": seq_lens,
        "block_table": table,
        "slot_mapping": placed.kv_slots,
        "query_offsets": offsets,
        "max_query_len": int(queries.max(initial=0)),
    }


def hidden_of(
    network: Network,
    graphs: StepGraphs | None,
    round: Round,
    which: Indices,
    queries: Indices,
    ahead: Indices,
) -> Tensor:
    """The residual stream behind such a pass, [T, E]: replayed where its rows decode and a graph has room."""
    batch, rows, state = round.batch, round.rows, round.state
    if graphs is not None and (which < rows.num_decodes).all():
        replayed = graphs.draft(rows.slots[which], queries, ahead)
        if replayed is not None:
            return replayed.hidden
    step = draft_pass(batch, rows, state, which, queries, ahead)
    model, cache, layers = network
    cache = state.cache if cache is None else cache
    return model.hidden(step.ids, step.positions, cache, step.metadata, layers)


def _metadata(batch: Batch, rows: Rows, which: Indices, ahead: Indices, **shared: Any) -> Metadata:
    if isinstance(batch, ExactBatch):
        before = batch.seq_lens.exact() - rows.queries
        return ExactMetadata(**shared, host_lens=ExactSeqLens.of(before[which] + ahead))
    decodes = which[which < rows.num_decodes]
    prefills = which[which >= rows.num_decodes] - rows.num_decodes
    # bound, sizing: a pass reaches no further than its step, so the step's bound holds for it
    bound = batch.bound.sizing_array(reader="worker.draft_pass")
    # bound, exact on prefill rows: a pass computes the same chunks
    exact = batch.prefill.seq_lens.exact()
    return OptimisticMetadata(
        **shared,
        decode_bound=SeqLensUpperBound.of(bound[decodes]),
        prefill_lens=ExactSeqLens.of(exact[prefills]),
    )
