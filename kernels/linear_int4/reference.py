"""The spec of a dense layer with weights of four bits."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.card import wide
from optimist.kernels.linear_int4.types import GROUP, Int4


def weights(packed: Int4) -> Tensor:
    """The weights [N, K] that are meant, float32."""
    outputs, halves = packed.values.shape
    pairs = packed.values.view(outputs, -1, GROUP // 2)
    values = torch.cat((pairs & 15, pairs >> 4), -1).float()
    meant = values * packed.scale.float()[..., None] + packed.offset.float()[..., None]
    return meant.view(outputs, 2 * halves)


def linear_int4(x: Tensor, weight: Int4, bias: Tensor | None = None) -> Tensor:
    """x [T, K] times weight [N, K] transposed, plus bias [N]. [T, N] in x's dtype."""
    dtype = wide(x.dtype)
    y = x.to(dtype) @ weights(weight).to(dtype).T
    return (y if bias is None else y + bias.to(dtype)).to(x.dtype)
