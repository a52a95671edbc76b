"""The spec of SwiGLU's gate."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.card import wide


def silu_and_mul(x: Tensor) -> Tensor:
    """silu of the first half of x [T, 2F] times the second half, [T, F]."""
    gate, up = x.to(wide(x.dtype)).chunk(2, -1)
    return (gate * torch.sigmoid(gate) * up).to(x.dtype)
