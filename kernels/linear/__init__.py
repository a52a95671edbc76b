"""Dense layers, with weights laid out once for the device."""

from __future__ import annotations

import torch

from optimist.kernels.card import Card
from optimist.kernels.linear import reference
from optimist.kernels.linear.cpu import Linear, pack

__all__ = ["CARD", "Linear", "pack"]

CARD = Card(
    name="linear",
    equation="y[t, n] = sum_k x[t, k] * weight[n, k] + bias[n]",
    axes="TKN",
    dtypes=(torch.bfloat16, torch.float32, torch.float64),
    reference=reference.linear,
    flops=lambda n: 2 * n["T"] * n["K"] * n["N"],
    bytes=lambda n: (n["T"] * n["K"] + n["N"] * n["K"] + n["T"] * n["N"]) * n["itemsize"],
    tolerance={
        torch.float64: (1e-11, 1e-11),
        torch.float32: (1e-5, 1e-5),
        torch.bfloat16: (1e-2, 1e-2),
    },
)
