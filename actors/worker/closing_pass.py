"""A pass of a device proposer over what it lacks of requests that leave: no step names them any more.

Drafts of their last steps may count in, which were rejected: what is computed of those is behind all that
anyone may read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from optimist.actors.worker.draft_pass import Indices, placed_pass
from optimist.actors.worker.torch_state import SlotState
from optimist.actors.worker.torch_step import StepInput
from optimist.kernels.device import upload
from optimist.kernels.metadata import ExactMetadata, OptimisticMetadata
from optimist.kernels.place import Placed
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound


def exact_closing(
    state: SlotState, leaving: Indices, queries: Indices, lens: ExactSeqLens
) -> StepInput:
    """The last `queries` tokens of slots, [N], up to `lens`: behind the last step of each, [N]."""
    slots, seq_lens = upload(leaving, state.device), upload(lens.exact().copy(), state.device)
    placed, shared = _closing(state, slots, queries, seq_lens, lens.max())
    metadata = ExactMetadata(**shared, host_lens=lens)
    return StepInput(placed.ids, placed.positions, slots, seq_lens, metadata)


def optimistic_closing(
    state: SlotState, leaving: Indices, queries: Indices, bound: SeqLensUpperBound
) -> StepInput:
    """The same up to what the device knows alone. bound: of the last step of each, [N]."""
    slots = upload(leaving, state.device)
    seq_lens = state.computed.index_select(0, slots)
    # bound, sizing: columns of the block table to gather, and the widest shape; device lengths choose
    placed, shared = _closing(state, slots, queries, seq_lens, bound.max())
    none = ExactSeqLens(b"")
    # bound, sizing: handed on: operators size their grids with it
    metadata = OptimisticMetadata(**shared, decode_bound=bound, prefill_lens=none)
    return StepInput(placed.ids, placed.positions, slots, seq_lens, metadata)


def _closing(
    state: SlotState, slots: Tensor, queries: Indices, seq_lens: Tensor, longest: int
) -> tuple[Placed, dict[str, Any]]:
    columns = -(-longest // state.cache.shape[-2])
    placed, shared = placed_pass(state, slots, queries, seq_lens, columns)
    shared |= {
        "max_seq_len": longest,
        "num_decodes": queries.size,
        "is_prefilling": np.zeros(queries.size, np.bool_),
    }
    return placed, shared
