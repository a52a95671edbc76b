"""A dense layer with weights of eight bits: a program for a block of outputs, while tokens are few."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from optimist.kernels.linear import widened
from optimist.kernels.linear_int8.types import Int8
from optimist.kernels.triton_common import divided, launch, power_of_2, product, strides

BLOCK_N, BLOCK_K = 32, 128

TOKENS = (16, 64)
"""the least and the most of a program; the least that matrix instructions take"""


@triton.jit(do_not_specialize=["T"])
def int8_matmul(
    x: tl.tensor,
    weight: tl.tensor,
    scale: tl.tensor,
    bias: tl.tensor,
    y: tl.tensor,
    T: tl.tensor,
    N: tl.tensor,
    K: tl.tensor,
    s_x: tl.tensor,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRODUCT: tl.constexpr,
) -> None:
    """y = x @ weight.T * scale + bias, grid (N / BLOCK_N, T / BLOCK_T)."""
    o_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    o_t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    m_n, m_t = o_n < N, o_t < T
    p_x = x + o_t.to(tl.int64)[:, None] * s_x
    p_w = weight + o_n.to(tl.int64)[None, :] * K
    b_y = tl.zeros([BLOCK_T, BLOCK_N], tl.float32)
    for i_k in range(0, K, BLOCK_K):
        o_k = i_k + tl.arange(0, BLOCK_K)
        m_k = o_k < K
        b_x = tl.load(p_x + o_k[None, :], mask=m_t[:, None] & m_k[None, :], other=0.0)
        b_w = tl.load(p_w + o_k[:, None], mask=m_k[:, None] & m_n[None, :], other=0)
        b_y += tl.dot(b_x, b_w.to(tl.float32).to(b_x.dtype), input_precision=PRODUCT)
    b_y *= tl.load(scale + o_n, mask=m_n, other=0.0)[None, :]
    if bias is not None:
        b_y += tl.load(bias + o_n, mask=m_n, other=0.0).to(tl.float32)[None, :]
    p_y = y + o_t.to(tl.int64)[:, None] * N + o_n[None, :]
    tl.store(p_y, b_y.to(y.dtype.element_ty), mask=m_t[:, None] & m_n[None, :])


def linear_int8(x: Tensor, weight: Int8, bias: Tensor | None = None) -> Tensor:
    """As the reference. x [T, K] may be strided, but not in K."""
    tokens, inputs = x.shape
    outputs = weight.values.shape[0]
    if tokens >= widened.MANY:

        def wide(part: slice) -> Tensor:
            # The product is made in float32, and rounded once.
            return weight.values[part].to(x.dtype).mul_(weight.scale[part, None])

        return widened.multiplied(x, outputs, bias, wide)
    y = torch.empty((tokens, outputs), dtype=x.dtype, device=x.device)
    least, most = TOKENS
    block = min(max(power_of_2(tokens), least), most)
    # Numbers of 32 bits take twice the room, and three products each.
    whole = x.itemsize >= torch.float32.itemsize
    launch(
        int8_matmul,
        (divided(outputs, BLOCK_N), divided(tokens, block)),
        *(x, weight.values, weight.scale, bias, y, tokens, outputs, inputs, *strides(x)),
        BLOCK_T=block,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K // (2 if whole else 1),
        PRODUCT=product(x.dtype),
        num_warps=4,
        num_stages=3,
    )
    return y
