"""RMS normalisation from a vector norm: half the operators of torch's own, which is not fused on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.card import wide


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Each row of x [T, E] (or [T, H, D]) divided by its root mean square, times weight [E].

    Computed in float32 or wider, in x's dtype on return. Fastest where both are wide already.
    """
    dtype = wide(x.dtype)
    norm = torch.linalg.vector_norm(x, 2, -1, True, dtype=dtype)
    scale = norm.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
    return torch.mul(x, scale).mul_(weight).to(x.dtype)
