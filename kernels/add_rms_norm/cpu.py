"""A layer's sum and the norm of it: two operators on a CPU."""

from __future__ import annotations

from torch import Tensor

from optimist.kernels.rms_norm import rms_norm


def add_rms_norm(x: Tensor, more: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Add more [T, E] to x [T, E], in place, and normalise the sum. [T, E] in more's dtype."""
    x += more
    return rms_norm(x, weight, eps).to(more.dtype)
