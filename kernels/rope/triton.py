"""Rotary positions in place: a program holds all heads of a token."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from optimist.kernels.triton_common import launch, power_of_2, strides, wide


@triton.jit
def _rope(
    x: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    s_t: tl.tensor,
    s_h: tl.tensor,
    H: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """x = x * cos + concat(-x2, x1) * sin with sin's first half negated beforehand, grid (T,)."""
    i_t = tl.program_id(0).to(tl.int64)
    o_h, o_d = tl.arange(0, BLOCK_H), tl.arange(0, BLOCK_D)
    m_d = o_d < HALF
    m_x = (o_h < H)[:, None] & m_d[None, :]
    p_x = x + i_t * s_t + o_h[:, None] * s_h + o_d[None, :]
    p_cos, p_sin = cos + i_t * 2 * HALF + o_d, sin + i_t * 2 * HALF + o_d
    b_first = wide(tl.load(p_x, mask=m_x, other=0.0))
    b_second = wide(tl.load(p_x + HALF, mask=m_x, other=0.0))
    b_cos, b_sin = tl.load(p_cos, mask=m_d, other=0.0), tl.load(p_sin, mask=m_d, other=0.0)
    b_y = b_first * b_cos[None, :] + b_second * b_sin[None, :]
    tl.store(p_x, b_y.to(x.dtype.element_ty), mask=m_x)
    b_cos = tl.load(p_cos + HALF, mask=m_d, other=0.0)
    b_sin = tl.load(p_sin + HALF, mask=m_d, other=0.0)
    b_y = b_second * b_cos[None, :] + b_first * b_sin[None, :]
    tl.store(p_x + HALF, b_y.to(x.dtype.element_ty), mask=m_x)


def rope_(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate x [T, H, D] in place by (cos, sin) from `rotations`; x may be strided. Returns x."""
    tokens, heads, dim = x.shape
    block_h, block_d = power_of_2(heads), power_of_2(dim // 2)
    launch(
        _rope,
        (tokens,),
        *(x, cos, sin, *strides(x)),
        H=heads,
        HALF=dim // 2,
        BLOCK_H=block_h,
        BLOCK_D=block_d,
        num_warps=min(8, max(1, block_h * block_d // 256)),
    )
    return x
