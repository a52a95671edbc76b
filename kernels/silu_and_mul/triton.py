"""SwiGLU's gate, elementwise."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from optimist.kernels.triton_common import divided, launch, strides, wide

BLOCK = 2048


@triton.jit
def _silu_and_mul(
    x: tl.tensor, y: tl.tensor, s_x: tl.tensor, F: tl.tensor, BLOCK: tl.constexpr
) -> None:
    """y = silu(x[:, :F]) * x[:, F:], grid (T, F / BLOCK)."""
    i_t, i_f = tl.program_id(0).to(tl.int64), tl.program_id(1)
    o_f = i_f * BLOCK + tl.arange(0, BLOCK)
    m_f = o_f < F
    p_x = x + i_t * s_x + o_f
    b_gate = wide(tl.load(p_x, mask=m_f, other=0.0))
    b_up = wide(tl.load(p_x + F, mask=m_f, other=0.0))
    b_y = b_gate / (1.0 + tl.exp(-b_gate)) * b_up
    tl.store(y + i_t * F + o_f, b_y.to(y.dtype.element_ty), mask=m_f)


def silu_and_mul(x: Tensor) -> Tensor:
    """As the reference. x: [T, 2F], may be strided, but not in F."""
    tokens, width = x.shape[0], x.shape[1] // 2
    y = torch.empty((tokens, width), dtype=x.dtype, device=x.device)
    grid = (tokens, divided(width, BLOCK))
    launch(_silu_and_mul, grid, x, y, *strides(x), width, BLOCK=BLOCK, num_warps=4)
    return y
