"""The gate of SwiGLU."""

from __future__ import annotations

import torch

from optimist.kernels.card import Card
from optimist.kernels.silu_and_mul import reference
from optimist.kernels.silu_and_mul.cpu import silu_and_mul

__all__ = ["CARD", "silu_and_mul"]

CARD = Card(
    name="silu_and_mul",
    equation="y[t, f] = x[t, f] * sigmoid(x[t, f]) * x[t, F + f]",
    axes="TF",
    dtypes=(torch.bfloat16, torch.float32, torch.float64),
    reference=reference.silu_and_mul,
    flops=lambda n: 5 * n["T"] * n["F"],
    bytes=lambda n: 3 * n["T"] * n["F"] * n["itemsize"],
)
