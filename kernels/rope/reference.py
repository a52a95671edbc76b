"""The spec of rotary positions."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.card import wide


def rotations(
    positions: Tensor, frequencies: Tensor, scale: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """(cos, sin) of each token's angles, [T, 1, D] each, times scale; in float32 or wider.

    positions: [T] integers. frequencies: [D / 2] float64. sin's first half is negated, so that the
    rotation is x * cos + roll(x, D / 2) * sin. Angles are float64: at position 100,000 a float32
    angle is off by a hundredth of a turn.
    """
    angles = positions.to(torch.float64)[:, None] * frequencies
    cos, sin = torch.cos(angles) * scale, torch.sin(angles) * scale
    both = torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)
    return both[0].to(wide(dtype))[:, None], both[1].to(wide(dtype))[:, None]


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [T, H, D] rotated by (cos, sin) from `rotations`. A new tensor in x's dtype."""
    first, second = x.to(cos.dtype).chunk(2, -1)
    return (torch.cat((first, second), -1) * cos + torch.cat((second, first), -1) * sin).to(x.dtype)
