"""Dense layers whose weights have eight bits, and a scale for each output."""

from __future__ import annotations

import torch

from optimist.kernels.card import Card
from optimist.kernels.linear_int8 import reference
from optimist.kernels.linear_int8.types import Int8, quantised

__all__ = ["CARD", "Int8", "quantised"]

CARD = Card(
    name="linear_int8",
    equation="y[t, n] = scale[n] * sum_k x[t, k] * weight[n, k] + bias[n]",
    axes="TKN",
    dtypes=(torch.bfloat16, torch.float32),
    reference=reference.linear_int8,
    devices=("gpu",),
    flops=lambda n: 2 * n["T"] * n["K"] * n["N"],
    bytes=lambda n: (n["K"] + 4) * n["N"] + (n["T"] * (n["K"] + n["N"])) * n["itemsize"],
    tolerance={torch.float32: (1e-5, 1e-5), torch.bfloat16: (1e-2, 1e-2)},
)
