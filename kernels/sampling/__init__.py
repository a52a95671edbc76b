"""Choosing the next token of each row: penalties, filters, and noise that depends on nothing else."""

from __future__ import annotations

import torch

from optimist.kernels.card import Card
from optimist.kernels.sampling import reference
from optimist.kernels.sampling.cpu import distribution, greedy, sample
from optimist.kernels.sampling.noise import ACCEPT, PROPOSAL, RESIDUAL, branch, gumbel, uniform
from optimist.kernels.sampling.types import NO_TOKEN, Edits, Penalties, Rows

__all__ = [
    "ACCEPT",
    "CARD",
    "NO_TOKEN",
    "PROPOSAL",
    "RESIDUAL",
    "Edits",
    "Penalties",
    "Rows",
    "branch",
    "distribution",
    "greedy",
    "gumbel",
    "sample",
    "uniform",
]

CARD = Card(
    name="sampling",
    equation="id[s] = argmax_v(filtered(logits[s, v] / temperature[s]) + gumbel(seed, position, v))",
    axes="SV",
    dtypes=(torch.float32, torch.float64),
    reference=reference.sample,
    flops=lambda n: 30 * n["S"] * n["V"],
    bytes=lambda n: n["S"] * n["V"] * n["itemsize"],
    tolerance={torch.float32: (0.0, 0.0), torch.float64: (0.0, 0.0)},
)
