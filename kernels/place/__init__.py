"""Where the tokens of a step are, and which they are: the step's beginning, on the device."""

from __future__ import annotations

import torch

from optimist.kernels.card import Card
from optimist.kernels.place import reference
from optimist.kernels.place.cpu import place
from optimist.kernels.place.types import Placed

__all__ = ["CARD", "Placed", "place"]

CARD = Card(
    name="place",
    equation="position[t] = seq_len[r] - query[r] + t - start[r]; id[t] = tokens[slot[r], position[t]]",
    axes="TRBP",
    dtypes=(torch.int32,),
    reference=reference.place,
    flops=lambda n: 0,
    bytes=lambda n: 28 * n["T"] + 16 * n["R"],
    tolerance={torch.int32: (0.0, 0.0)},
)
