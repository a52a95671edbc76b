"""Rotary position embedding, rotate-half form."""

from __future__ import annotations

import torch

from optimist.kernels.card import Card
from optimist.kernels.rope import reference
from optimist.kernels.rope.cpu import rope_
from optimist.kernels.rope.reference import rotations

__all__ = ["CARD", "rope_", "rotations"]

CARD = Card(
    name="rope",
    equation="y[t, h, :] = x[t, h, :] * cos[t, :] + concat(-x2, x1)[t, h, :] * sin[t, :]",
    axes="THD",
    dtypes=(torch.bfloat16, torch.float32, torch.float64),
    reference=reference.rope,
    flops=lambda n: 3 * n["T"] * n["H"] * n["D"],
    bytes=lambda n: (2 * n["H"] + 2) * n["T"] * n["D"] * n["itemsize"],
)
