"""Log-probabilities of chosen tokens and of the likeliest alternatives."""

from __future__ import annotations

import torch

from optimist.kernels.card import Card
from optimist.kernels.logprobs import reference
from optimist.kernels.logprobs.cpu import logprobs
from optimist.kernels.logprobs.types import Report

__all__ = ["CARD", "Report", "logprobs"]

CARD = Card(
    name="logprobs",
    equation="chosen[s] = log_softmax(logits[s, :])[id[s]]; ranks, top values and top ids beside it",
    axes="SVA",
    dtypes=(torch.float32, torch.float64),
    reference=reference.logprobs,
    flops=lambda n: 6 * n["S"] * n["V"],
    bytes=lambda n: n["S"] * n["V"] * n["itemsize"],
    tolerance={torch.float32: (1e-6, 1e-6), torch.float64: (1e-12, 1e-12)},
)
