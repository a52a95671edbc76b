"""Dense layers whose weights have four bits, in groups of 32 that share a scale and an offset."""

from __future__ import annotations

import torch

from optimist.kernels.card import Card
from optimist.kernels.linear_int4 import reference
from optimist.kernels.linear_int4.types import GROUP, Int4, quantised

__all__ = ["CARD", "GROUP", "Int4", "quantised"]

CARD = Card(
    name="linear_int4",
    equation="y[t, n] = sum_k x[t, k] * (scale[n, k / 32] * weight[n, k] + offset[n, k / 32]) + bias[n]",
    axes="TKN",
    dtypes=(torch.bfloat16, torch.float32),
    reference=reference.linear_int4,
    devices=("gpu",),
    flops=lambda n: 2 * n["T"] * n["K"] * n["N"],
    bytes=lambda n: n["K"] * n["N"] * 5 // 8 + (n["T"] * (n["K"] + n["N"])) * n["itemsize"],
    tolerance={torch.float32: (1e-5, 1e-5), torch.bfloat16: (2e-2, 2e-2)},
)
