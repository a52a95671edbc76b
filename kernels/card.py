"""What an operator declares about itself: its axes, its spec, how near it must come, what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

AXES: Mapping[str, str] = {
    "T": "query tokens of the step",
    "R": "rows of the step, one for each request",
    "C": "tokens of context a row attends to, its own query included",
    "H": "query heads",
    "G": "key and value heads",
    "D": "values of a head",
    "E": "values of the residual stream",
    "F": "values inside the feed-forward block",
    "K": "inputs of a linear",
    "N": "outputs of a linear",
    "V": "tokens of the vocabulary",
    "P": "tokens of a block",
    "B": "blocks of a row",
    "S": "rows that sample",
    "J": "places where a step samples: a row has one at each of its drafts, and one behind them",
    "W": "tokens a slot has room for",
    "A": "alternatives reported beside a token",
}
"""The letters that shapes are written in, here and in every docstring of the kernels."""

FP8 = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2)
"""numbers of eight bits, of which each device converts its own"""

Cost = Callable[[Mapping[str, int]], int]


@dataclass(frozen=True, kw_only=True)
class Card:
    """One operator. `reference` is its spec; everything else that computes it is tested against it.

    equation: what it computes. axes: the letters it uses. dtypes: of its tensors. devices: where a
    version runs. narrow: what a cache may hold instead, of eight bits.
    flops, bytes: cost as a function of the axes' sizes and `itemsize`.
    tolerance: (relative, absolute) for each dtype, the same everywhere and for every version of it.
    """

    name: str
    equation: str
    axes: str
    dtypes: tuple[torch.dtype, ...]
    reference: Callable[..., Any]
    devices: tuple[str, ...] = ("cpu", "gpu")
    narrow: tuple[torch.dtype, ...] = ()
    flops: Cost
    bytes: Cost
    tolerance: Mapping[torch.dtype, tuple[float, float]] = field(
        default_factory=lambda: {
            torch.float64: (1e-12, 1e-12),
            torch.float32: (2e-6, 2e-6),
            torch.bfloat16: (8e-3, 8e-3),
        }
    )

    def assert_near(self, got: Tensor, want: Tensor) -> None:
        """Raise AssertionError unless got is within this card's tolerance of want, NaN nowhere."""
        rtol, atol = self.tolerance[want.dtype]
        torch.testing.assert_close(got, want, rtol=rtol, atol=atol)


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which a spec computes: float32, or float64 where the tensors have it."""
    return torch.promote_types(dtype, torch.float32)
