"""What a layer adds to the residual stream, and the norm in front of the next one."""

from __future__ import annotations

import torch

from optimist.kernels.add_rms_norm import reference
from optimist.kernels.add_rms_norm.cpu import add_rms_norm
from optimist.kernels.card import Card

__all__ = ["CARD", "add_rms_norm"]

CARD = Card(
    name="add_rms_norm",
    equation="x[t, e] += more[t, e]; y[t, e] = x[t, e] / sqrt(mean_e(x[t, e]^2) + eps) * weight[e]",
    axes="TE",
    dtypes=(torch.bfloat16, torch.float32, torch.float64),
    reference=reference.add_rms_norm,
    flops=lambda n: 5 * n["T"] * n["E"],
    # The stream is float32, whatever is added to it.
    bytes=lambda n: (2 * n["T"] + 1) * n["E"] * n["itemsize"] + 8 * n["T"] * n["E"],
)
