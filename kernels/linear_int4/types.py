"""Weights of four bits."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

GROUP = 32
"""inputs that share a scale and an offset"""


class Int4(NamedTuple):
    """values: [N, K / 2] uint8. scale, offset: [N, K / 32] bfloat16.

    Byte j of a group of 16 holds two values of 0 to 15: the group's j-th in its low half, and the one 16
    behind it in its high half. A weight is scale times value plus offset.
    """

    values: Tensor
    scale: Tensor
    offset: Tensor


def quantised(weight: Tensor) -> Int4:
    """The nearest values to weight [N, K]: each group reaches from its least to its largest.

    Raises ValueError unless K is a multiple of GROUP.
    """
    outputs, inputs = weight.shape
    if inputs % GROUP:
        raise ValueError(f"weight: expected inputs in groups of {GROUP}, got {inputs}")
    groups = weight.to(torch.float32).view(outputs, inputs // GROUP, GROUP)
    offset = groups.amin(-1).to(torch.bfloat16)
    scale = ((groups.amax(-1) - offset) / 15).to(torch.bfloat16)
    step = torch.where(scale > 0, scale, 1.0).float()[..., None]
    values = torch.round((groups - offset.float()[..., None]) / step).clamp_(0, 15).to(torch.uint8)
    low, high = values.view(outputs, -1, 2, GROUP // 2).unbind(2)
    return Int4((low | high << 4).reshape(outputs, inputs // 2), scale, offset)
