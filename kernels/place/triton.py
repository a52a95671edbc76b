"""A step's beginning in one kernel: a program for a block of query tokens."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from optimist.kernels.place.types import Placed
from optimist.kernels.triton_common import divided, launch

BLOCK = 128


@triton.jit(do_not_specialize=["T", "R", "s_table"])
def _place(
    token_ids: tl.tensor,
    slots: tl.tensor,
    starts: tl.tensor,
    seq_lens: tl.tensor,
    table: tl.tensor,
    row: tl.tensor,
    ids: tl.tensor,
    positions: tl.tensor,
    kv_slots: tl.tensor,
    T: tl.tensor,
    R: tl.tensor,
    s_tokens: tl.tensor,
    s_table: tl.tensor,
    P: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Gathers of query tokens, grid (T / BLOCK,). Tokens that no row claims are written nowhere."""
    o_t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m_t = o_t < T
    m_real = m_t & (o_t < tl.load(starts + R))
    o_r = tl.load(row + o_t, mask=m_real, other=0)
    b_end = tl.load(starts + o_r + 1, mask=m_real, other=0)
    b_at = o_t - b_end + tl.load(seq_lens + o_r, mask=m_real, other=0)
    b_slot = tl.load(slots + o_r, mask=m_real, other=0)
    b_id = tl.load(token_ids + b_slot * s_tokens + b_at, mask=m_real, other=0)
    b_block = tl.load(table + o_r * s_table + b_at // P, mask=m_real, other=0).to(tl.int64)
    b_kv = tl.where(m_real, b_block * P + b_at % P, -1)
    tl.store(ids + o_t, b_id, mask=m_t)
    tl.store(positions + o_t, tl.where(m_real, b_at, 0).to(tl.int64), mask=m_t)
    tl.store(kv_slots + o_t, b_kv, mask=m_t)


def place(
    token_ids: Tensor,
    slots: Tensor,
    starts: Tensor,
    seq_lens: Tensor,
    table: Tensor,
    size: int,
    *,
    row: Tensor,
) -> Placed:
    """As the reference. row: the row of each token, [T] int64. Tokens behind the last query of `starts`
    are padding: id 0, position 0, KV slot -1.
    """
    tokens = row.shape[0]
    ids = torch.empty(tokens, dtype=torch.int32, device=row.device)
    positions = torch.empty(tokens, dtype=torch.int64, device=row.device)
    kv_slots = torch.empty(tokens, dtype=torch.int64, device=row.device)
    launch(
        _place,
        (divided(tokens, BLOCK),),
        *(token_ids, slots, starts, seq_lens, table, row, ids, positions, kv_slots),
        *(tokens, slots.shape[0], token_ids.stride(0), table.stride(0)),
        P=size,
        BLOCK=BLOCK,
        num_warps=4,
    )
    return Placed(ids, positions, kv_slots)
