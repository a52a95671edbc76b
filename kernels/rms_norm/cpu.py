"""RMS normalisation by torch's own operator, which computes bfloat16 in float32."""

from __future__ import annotations

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Each row of x [T, E] (or [T, H, D]) divided by its root mean square, times weight [E]."""
    return torch.rms_norm(x, weight.shape, weight, eps)
