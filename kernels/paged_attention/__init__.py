"""Causal attention of decode rows and prefill chunks, mixed, over the paged cache."""

from __future__ import annotations

import torch

from optimist.kernels.card import FP8, Card
from optimist.kernels.paged_attention import reference
from optimist.kernels.paged_attention.cpu import paged_attention
from optimist.kernels.paged_attention.groups import Group, prepare

__all__ = ["CARD", "Group", "paged_attention", "prepare"]

CARD = Card(
    name="paged_attention",
    equation="o[t, h, :] = sum_c softmax_c(scale * q[t, h, :] . k[c, g, :]) v[c, g, :], c seen by t",
    axes="TRCHGDPB",
    dtypes=(torch.bfloat16, torch.float32, torch.float64),
    reference=reference.paged_attention,
    narrow=FP8,
    flops=lambda n: 4 * n["T"] * n["C"] * n["H"] * n["D"],
    bytes=lambda n: (2 * n["R"] * n["C"] * n["G"] + 2 * n["T"] * n["H"]) * n["D"] * n["itemsize"],
    tolerance={
        torch.float64: (1e-12, 1e-12),
        torch.float32: (1e-5, 1e-5),
        torch.bfloat16: (3e-2, 3e-2),
    },
)
