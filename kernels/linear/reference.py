"""The spec of a dense layer."""

from __future__ import annotations

from torch import Tensor

from optimist.kernels.card import wide


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [T, K] times weight [N, K] transposed, plus bias [N]. [T, N] in x's dtype."""
    dtype = wide(x.dtype)
    y = x.to(dtype) @ weight.to(dtype).T
    return (y if bias is None else y + bias.to(dtype)).to(x.dtype)
