"""Root-mean-square normalisation."""

from __future__ import annotations

import torch

from optimist.kernels.card import Card
from optimist.kernels.rms_norm import reference
from optimist.kernels.rms_norm.cpu import rms_norm

__all__ = ["CARD", "rms_norm"]

CARD = Card(
    name="rms_norm",
    equation="y[t, e] = x[t, e] / sqrt(mean_e(x[t, e]^2) + eps) * weight[e]",
    axes="TE",
    dtypes=(torch.bfloat16, torch.float32, torch.float64),
    reference=reference.rms_norm,
    flops=lambda n: 4 * n["T"] * n["E"],
    bytes=lambda n: (2 * n["T"] + 1) * n["E"] * n["itemsize"],
)
