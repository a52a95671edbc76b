"""RMS normalisation in one pass: a program holds a row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from optimist.kernels.triton_common import launch, power_of_2, strides, wide


@triton.jit
def _rms_norm(
    x: tl.tensor,
    weight: tl.tensor,
    y: tl.tensor,
    eps: tl.tensor,
    s_xt: tl.tensor,
    s_xh: tl.tensor,
    s_yt: tl.tensor,
    s_yh: tl.tensor,
    H: tl.constexpr,
    E: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """y = x / sqrt(mean(x^2) + eps) * weight for the heads of a token, grid (T,)."""
    i_t = tl.program_id(0).to(tl.int64)
    o_h, o_e = tl.arange(0, BLOCK_H)[:, None], tl.arange(0, BLOCK)[None, :]
    m_x = (o_h < H) & (o_e < E)
    b_x = wide(tl.load(x + i_t * s_xt + o_h * s_xh + o_e, mask=m_x, other=0.0))
    b_w = wide(tl.load(weight + o_e, mask=o_e < E, other=0.0))
    b_y = b_x / tl.sqrt(tl.sum(b_x * b_x, 1) / E + eps)[:, None] * b_w
    tl.store(y + i_t * s_yt + o_h * s_yh + o_e, b_y.to(y.dtype.element_ty), mask=m_x)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """As the reference. x: [T, E] or [T, H, E], may be strided, but not in E."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    whole = x if x.dim() == 3 else x[:, None]
    out = y if y.dim() == 3 else y[:, None]
    tokens, heads, width = whole.shape
    block_h = power_of_2(heads)
    launch(
        _rms_norm,
        (tokens,),
        *(whole, weight, out, eps, *strides(whole), *strides(out)),
        H=heads,
        E=width,
        BLOCK_H=block_h,
        BLOCK=power_of_2(width),
        num_warps=warps(block_h * power_of_2(width)),
    )
    return y


def warps(values: int) -> int:
    """For a program that holds so many values."""
    return min(16, max(1, values // 512))
