"""The spec of a dense layer with weights of eight bits."""

from __future__ import annotations

from torch import Tensor

from optimist.kernels.card import wide
from optimist.kernels.linear_int8.types import Int8


def linear_int8(x: Tensor, weight: Int8, bias: Tensor | None = None) -> Tensor:
    """x [T, K] times weight [N, K] transposed, plus bias [N]. [T, N] in x's dtype."""
    dtype = wide(x.dtype)
    y = x.to(dtype) @ weight.values.to(dtype).T * weight.scale.to(dtype)
    return (y if bias is None else y + bias.to(dtype)).to(x.dtype)
