"""Whose each query token is, from the device's own offsets."""

from __future__ import annotations

import torch

from optimist.kernels.card import Card
from optimist.kernels.token_to_req_indices import reference
from optimist.kernels.token_to_req_indices.cpu import token_to_req_indices

__all__ = ["CARD", "token_to_req_indices"]

CARD = Card(
    name="token_to_req_indices",
    equation="row[t] = the r for which start[r] <= t < start[r + 1]; 0 behind the last query",
    axes="TR",
    dtypes=(torch.int32,),
    reference=reference.token_to_req_indices,
    flops=lambda n: 0,
    bytes=lambda n: 4 * n["T"] + 4 * (n["R"] + 1),
    tolerance={torch.int32: (0.0, 0.0)},
)
