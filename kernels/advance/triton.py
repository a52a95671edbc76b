"""A step's end in one kernel: rows count, choices are remembered."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from optimist.kernels.triton_common import divided, launch

BLOCK = 128


@triton.jit(do_not_specialize=["R", "J"])
def _advance(
    computed: tl.tensor,
    token_ids: tl.tensor,
    slots: tl.tensor,
    queries: tl.tensor,
    rejected: tl.tensor,
    at: tl.tensor,
    positions: tl.tensor,
    ids: tl.tensor,
    R: tl.tensor,
    J: tl.tensor,
    s_tokens: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """Scatters of rows and of choices, grid (max(R, J) / BLOCK,). A slot below 0 is padding."""
    o_x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_slot = tl.load(slots + o_x, mask=o_x < R, other=-1)
    m_r = b_slot >= 0
    b_more = tl.load(queries + o_x, mask=m_r, other=0) - tl.load(rejected + o_x, mask=m_r, other=0)
    b_computed = tl.load(computed + b_slot, mask=m_r, other=0)
    tl.store(computed + b_slot, b_computed + b_more.to(tl.int32), mask=m_r)
    b_at = tl.load(at + o_x, mask=o_x < J, other=-1)
    m_j = b_at >= 0
    b_id = tl.maximum(tl.load(ids + o_x, mask=m_j, other=0), 0).to(tl.int32)
    tl.store(
        token_ids + b_at * s_tokens + tl.load(positions + o_x, mask=m_j, other=0), b_id, mask=m_j
    )


def advance(
    computed: Tensor,
    token_ids: Tensor,
    slots: Tensor,
    queries: Tensor,
    rejected: Tensor,
    at: Tensor,
    positions: Tensor,
    ids: Tensor,
) -> None:
    """As the reference. Slots below 0, of rows or of choices, are padding."""
    rows, choices = slots.shape[0], at.shape[0]
    launch(
        _advance,
        (divided(max(rows, choices), BLOCK),),
        *(computed, token_ids, slots, queries, rejected, at, positions, ids),
        *(rows, choices, token_ids.stride(0)),
        BLOCK=BLOCK,
        num_warps=4,
    )
