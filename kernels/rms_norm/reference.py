"""The spec of RMS normalisation."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.card import wide


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Each row of x [T, E] divided by its root mean square, times weight [E]. x's dtype."""
    values = x.to(wide(x.dtype))
    scale = torch.rsqrt(values.square().mean(-1, keepdim=True) + eps)
    return (values * scale * weight.to(values.dtype)).to(x.dtype)
