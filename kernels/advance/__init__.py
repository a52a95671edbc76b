"""What a step leaves behind in each slot: the step's end, on the device."""

from __future__ import annotations

import torch

from optimist.kernels.advance import reference
from optimist.kernels.advance.cpu import advance
from optimist.kernels.card import Card

__all__ = ["CARD", "advance"]

CARD = Card(
    name="advance",
    equation="computed[slot[r]] += query[r] - rejected[r]; tokens[slot[j], position[j]] = id[j]",
    axes="RJ",
    dtypes=(torch.int32,),
    reference=reference.advance,
    flops=lambda n: 2 * n["R"],
    bytes=lambda n: 28 * n["R"] + 28 * n["J"],
    tolerance={torch.int32: (0.0, 0.0)},
)
