"""Rotary positions in four torch operators, in place."""

from __future__ import annotations

import torch
from torch import Tensor


def rope_(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate x [T, H, D] in place by (cos, sin) from `rotations`; x may be strided. Returns x.

    Computed in the dtype of cos, so that bfloat16 is rounded once.
    """
    turned = torch.roll(x, x.shape[-1] // 2, -1)
    return x.copy_((x * cos).addcmul_(turned, sin))
