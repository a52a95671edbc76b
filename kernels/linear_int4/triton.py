"""A dense layer with weights of four bits: a program for a block of outputs, while tokens are few.

Both halves of a byte are multiplied where they lie: with the inputs of the group's first half, and with
those of its second half.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from optimist.kernels.linear import widened
from optimist.kernels.linear_int4.types import GROUP, Int4
from optimist.kernels.triton_common import divided, launch, power_of_2, product, strides

BLOCK_N, BLOCK_K = 32, 128
"""BLOCK_K: bytes, of two inputs each"""

TOKENS = (16, 32)
"""the least and the most of a program; the least that matrix instructions take"""


@triton.jit(do_not_specialize=["T"])
def int4_matmul(
    x: tl.tensor,
    weight: tl.tensor,
    scale: tl.tensor,
    offset: tl.tensor,
    bias: tl.tensor,
    y: tl.tensor,
    T: tl.tensor,
    N: tl.tensor,
    K: tl.tensor,
    s_x: tl.tensor,
    HALF: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRODUCT: tl.constexpr,
) -> None:
    """y = x @ (scale * weight + offset).T + bias, grid (N / BLOCK_N, T / BLOCK_T). K: bytes of an output."""
    o_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    o_t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    m_n, m_t = o_n < N, o_t < T
    p_x = x + o_t.to(tl.int64)[:, None] * s_x
    p_w = weight + o_n.to(tl.int64)[None, :] * K
    o_s = o_n.to(tl.int64)[None, :] * (K // HALF)
    b_y = tl.zeros([BLOCK_T, BLOCK_N], tl.float32)
    for i_k in range(0, K, BLOCK_K):
        o_k = i_k + tl.arange(0, BLOCK_K)
        m_k = o_k < K
        m_x, m_w = m_t[:, None] & m_k[None, :], m_k[:, None] & m_n[None, :]
        p_low = p_x + (o_k + o_k // HALF * HALF)[None, :]
        b_low = tl.load(p_low, mask=m_x, other=0.0)
        b_high = tl.load(p_low + HALF, mask=m_x, other=0.0)
        b_w = tl.load(p_w + o_k[:, None], mask=m_w, other=0)
        o_group = o_s + (o_k // HALF)[:, None]
        b_scale = tl.load(scale + o_group, mask=m_w, other=0.0).to(tl.float32)
        b_offset = tl.load(offset + o_group, mask=m_w, other=0.0).to(tl.float32)
        b_first = (b_w & 15).to(tl.float32) * b_scale + b_offset
        b_second = (b_w >> 4).to(tl.float32) * b_scale + b_offset
        b_y += tl.dot(b_low, b_first.to(b_low.dtype), input_precision=PRODUCT)
        b_y += tl.dot(b_high, b_second.to(b_low.dtype), input_precision=PRODUCT)
    if bias is not None:
        b_y += tl.load(bias + o_n, mask=m_n, other=0.0).to(tl.float32)[None, :]
    p_y = y + o_t.to(tl.int64)[:, None] * N + o_n[None, :]
    tl.store(p_y, b_y.to(y.dtype.element_ty), mask=m_t[:, None] & m_n[None, :])


def linear_int4(x: Tensor, weight: Int4, bias: Tensor | None = None) -> Tensor:
    """As the reference. x [T, K] may be strided, but not in K."""
    tokens, outputs, halves = x.shape[0], *weight.values.shape
    if tokens >= widened.MANY:
        return widened.multiplied(x, outputs, bias, lambda part: _wide(weight, part, x.dtype))
    y = torch.empty((tokens, outputs), dtype=x.dtype, device=x.device)
    least, most = TOKENS
    block = min(max(power_of_2(tokens), least), most)
    # Numbers of 32 bits take twice the room, and three products each.
    whole = x.itemsize >= torch.float32.itemsize
    launch(
        int4_matmul,
        (divided(outputs, BLOCK_N), divided(tokens, block)),
        *(x, weight.values, weight.scale, weight.offset, bias, y, tokens, outputs, halves),
        *strides(x),
        HALF=GROUP // 2,
        BLOCK_T=block,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K // (4 if whole else 1),
        PRODUCT=product(x.dtype),
        num_warps=4,
        num_stages=3,
    )
    return y


def _wide(weight: Int4, part: slice, dtype: torch.dtype) -> Tensor:
    pairs = weight.values[part]
    pairs = pairs.view(pairs.shape[0], -1, GROUP // 2)
    values = torch.cat((pairs & 15, pairs >> 4), -1).to(dtype)
    scale, offset = (column[part, :, None].to(dtype) for column in (weight.scale, weight.offset))
    return torch.addcmul(offset, values, scale).flatten(1)
