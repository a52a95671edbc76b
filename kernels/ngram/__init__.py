"""Drafts by looking the last tokens of a slot up among those before them, on the device."""

from __future__ import annotations

import torch

from optimist.kernels.card import Card
from optimist.kernels.ngram import reference
from optimist.kernels.ngram.cpu import ngram

__all__ = ["CARD", "ngram"]

CARD = Card(
    name="ngram",
    equation="end[r] = the rightmost of the longest matches of tokens[r, ..L]; draft[r, i] = tokens[r, end + i]",
    axes="RW",
    dtypes=(torch.int32,),
    reference=reference.ngram,
    flops=lambda n: 8 * n["R"] * n["W"],
    bytes=lambda n: 4 * n["R"] * n["W"],
    tolerance={torch.int32: (0.0, 0.0)},
)
