"""From the rows of a step to what the network takes: positions, token ids and metadata, on the device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from optimist.actors.worker.told_rows import ToldRows
from optimist.actors.worker.torch_rows import Ints, Rows, longest
from optimist.actors.worker.torch_state import SlotState
from optimist.kernels.metadata import ExactMetadata, Metadata, OptimisticMetadata
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch


class StepInput(NamedTuple):
    """ids, positions: [T]. slots: [R] int64. seq_lens: after the step, [R] int32."""

    ids: Tensor
    positions: Tensor
    slots: Tensor
    seq_lens: Tensor
    metadata: Metadata


def step_input(batch: Batch, rows: Rows, state: SlotState, told: ToldRows) -> StepInput:
    """Where each token of the step is, and which it is. Decode rows read the token that the last
    step left on the device, so that this step can be built before the host knows it.
    """
    slots, starts, row = told.slots, told.starts, told.row
    seq_lens = told.lengths
    if isinstance(batch, OptimisticBatch):
        decodes = rows.num_decodes
        known = state.computed.index_select(0, slots[:decodes]) + seq_lens[:decodes]
        seq_lens = torch.cat((known, seq_lens[decodes:]))
    # bound, sizing: columns of the block table to gather; device lengths choose among them
    table = state.block_table[:, : batch.max_blocks].index_select(0, slots)
    size = state.cache.shape[-2]
    placed = state.kernels.place(state.token_ids, slots, starts, seq_lens, table, size, row=row)
    metadata = _metadata(batch, rows, starts, seq_lens, table, placed.kv_slots)
    return StepInput(placed.ids, placed.positions, slots, seq_lens, metadata)


def lengths_told(batch: Batch, rows: Rows) -> Ints:
    """Lengths after the step, [R]; of a decode row in an OptimisticBatch what the step adds to what the
    device holds.
    """
    if isinstance(batch, ExactBatch):
        return batch.seq_lens.exact().copy()
    # bound, exact on prefill rows: of prompt chunks; decode rows take what the device holds
    prefills = batch.prefill.seq_lens.exact()
    return np.concatenate((rows.drafts + 1, prefills), dtype=np.int32)


def _metadata(
    batch: Batch, rows: Rows, starts: Tensor, seq_lens: Tensor, table: Tensor, kv_slots: Tensor
) -> Metadata:
    prefilling = np.arange(rows.slots.size) >= rows.num_decodes
    if isinstance(batch, OptimisticBatch):
        # bound, sizing: handed on: operators size their grids with it
        return OptimisticMetadata(
            query_start_loc=starts,
            seq_lens=seq_lens,
            block_table=table,
            slot_mapping=kv_slots,
            query_offsets=rows.offsets,
            max_query_len=batch.max_query_len,
            max_seq_len=longest(batch),
            num_decodes=rows.num_decodes,
            is_prefilling=prefilling,
            decode_bound=batch.bound,
            prefill_lens=batch.prefill.seq_lens,
        )
    # bound, sizing: handed on: operators size their grids with it
    return ExactMetadata(
        query_start_loc=starts,
        seq_lens=seq_lens,
        block_table=table,
        slot_mapping=kv_slots,
        query_offsets=rows.offsets,
        max_query_len=batch.max_query_len,
        max_seq_len=longest(batch),
        num_decodes=rows.num_decodes,
        is_prefilling=prefilling,
        host_lens=batch.seq_lens,
    )
