"""What a layer adds, and the norm of the sum, in one pass: a program holds a row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from optimist.kernels.rms_norm.triton import warps
from optimist.kernels.triton_common import launch, power_of_2, strides, wide


@triton.jit
def _add_rms_norm(
    x: tl.tensor,
    more: tl.tensor,
    weight: tl.tensor,
    y: tl.tensor,
    eps: tl.tensor,
    s_x: tl.tensor,
    s_more: tl.tensor,
    E: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """x += more; y = x / sqrt(mean(x^2) + eps) * weight, grid (T,)."""
    i_t = tl.program_id(0).to(tl.int64)
    o_e = tl.arange(0, BLOCK)
    m_e = o_e < E
    p_x = x + i_t * s_x + o_e
    b_x = wide(tl.load(p_x, mask=m_e, other=0.0))
    b_x += wide(tl.load(more + i_t * s_more + o_e, mask=m_e, other=0.0))
    tl.store(p_x, b_x.to(x.dtype.element_ty), mask=m_e)
    b_w = wide(tl.load(weight + o_e, mask=m_e, other=0.0))
    b_y = b_x / tl.sqrt(tl.sum(b_x * b_x, 0) / E + eps) * b_w
    tl.store(y + i_t * E + o_e, b_y.to(y.dtype.element_ty), mask=m_e)


def add_rms_norm(x: Tensor, more: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Add more [T, E] to x [T, E], in place, and normalise the sum. [T, E] in more's dtype."""
    y = torch.empty(more.shape, dtype=more.dtype, device=more.device)
    block = power_of_2(x.shape[-1])
    launch(
        _add_rms_norm,
        (x.shape[0],),
        *(x, more, weight, y, eps, *strides(x), *strides(more)),
        E=x.shape[-1],
        BLOCK=block,
        num_warps=warps(block),
    )
    return y
