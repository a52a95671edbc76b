"""Which drafts the target accepts, and the token behind them."""

from __future__ import annotations

import torch

from optimist.kernels.card import Card
from optimist.kernels.verify import reference
from optimist.kernels.verify.cpu import compare
from optimist.kernels.verify.rejection import block, reject
from optimist.kernels.verify.types import NO_DRAFT, Layout, Noise, Places, Verified

__all__ = [
    "CARD",
    "NO_DRAFT",
    "Layout",
    "Noise",
    "Places",
    "Verified",
    "block",
    "compare",
    "reject",
]

CARD = Card(
    name="verify",
    equation="accepted[s] = the first i at which draft[s, i] is not accepted; id behind it drawn anew",
    axes="SJV",
    dtypes=(torch.float32, torch.float64),
    reference=reference.verify,
    flops=lambda n: 4 * n["J"] * n["V"],
    bytes=lambda n: 2 * n["J"] * n["V"] * n["itemsize"] + 8 * n["S"],
    tolerance={torch.float32: (0.0, 0.0), torch.float64: (0.0, 0.0)},
)
