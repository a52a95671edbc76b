"""Weights of eight bits."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Int8(NamedTuple):
    """values: [N, K] int8. scale: [N] float32; a weight is its value times the scale of its output."""

    values: Tensor
    scale: Tensor


def quantised(weight: Tensor) -> Int8:
    """The nearest values to weight [N, K]; of each output the largest becomes 127."""
    wide = weight.to(torch.float32)
    scale = wide.abs().amax(1) / 127
    values = torch.round(wide / torch.where(scale > 0, scale, 1.0)[:, None])
    return Int8(values.to(torch.int8), scale)
