"""Looking up the last tokens on a GPU: a program compares all places of a row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from optimist.kernels.triton_common import launch, power_of_2

BLOCK = 1024
"""places at a time"""


@triton.jit(do_not_specialize=["count"])
def _ngram(
    token_ids: tl.tensor,
    slots: tl.tensor,
    lengths: tl.tensor,
    drafts: tl.tensor,
    s_tokens: tl.tensor,
    count: tl.tensor,
    SHORTEST: tl.constexpr,
    LONGEST: tl.constexpr,
    BLOCK_X: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Grid (R,). The best end is the one with the longest match, and of these the rightmost."""
    i_r = tl.program_id(0)
    length = tl.load(lengths + i_r)
    p_tokens = token_ids + tl.load(slots + i_r) * s_tokens
    b_best = tl.zeros([BLOCK], tl.int64)
    for i_end in range(1, length, BLOCK):
        o_end = i_end + tl.arange(0, BLOCK)
        m_alike = o_end < length
        b_match = tl.zeros([BLOCK], tl.int64)
        for back in tl.static_range(1, LONGEST + 1):
            m_alike = m_alike & (o_end >= back)
            b_token = tl.load(p_tokens + o_end - back, mask=m_alike, other=-1)
            last = tl.load(p_tokens + tl.maximum(length - back, 0))
            m_alike = m_alike & (b_token == last)
            b_match += m_alike.to(tl.int64)
        b_key = tl.where(b_match >= SHORTEST, (b_match << 32) | o_end, 0)
        b_best = tl.maximum(b_best, b_key)
    best = tl.max(b_best, 0)
    end = (best & 0xFFFFFFFF).to(tl.int32)
    o_x = tl.arange(0, BLOCK_X)
    period = tl.maximum(length - end, 1)
    m_x = o_x < tl.where(best > 0, count, 0)
    b_draft = tl.load(p_tokens + end + o_x % period, mask=m_x, other=-1)
    tl.store(drafts + i_r * count + o_x, b_draft, mask=o_x < count)


def ngram(
    token_ids: Tensor, slots: Tensor, lengths: Tensor, count: int, *, shortest: int, longest: int
) -> Tensor:
    """As the reference."""
    rows = slots.shape[0]
    drafts = torch.empty((rows, count), dtype=torch.int32, device=token_ids.device)
    launch(
        _ngram,
        (rows if count else 0,),
        *(token_ids, slots, lengths, drafts, token_ids.stride(0), count),
        SHORTEST=shortest,
        LONGEST=longest,
        BLOCK_X=power_of_2(count),
        BLOCK=BLOCK,
        num_warps=8,
    )
    return drafts
