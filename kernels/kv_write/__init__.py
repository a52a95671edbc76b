"""Keys and values of a step into the paged cache."""

from __future__ import annotations

import torch

from optimist.kernels.card import FP8, Card
from optimist.kernels.kv_write import reference
from optimist.kernels.kv_write.cpu import kv_write

__all__ = ["CARD", "kv_write"]

CARD = Card(
    name="kv_write",
    equation="cache[:, slots[t] div P, slots[t] mod P, :] = kv[t, :, :] where slots[t] >= 0",
    axes="TGDP",
    dtypes=(torch.bfloat16, torch.float32, torch.float64),
    reference=reference.kv_write,
    narrow=FP8,
    flops=lambda n: 0,
    bytes=lambda n: 4 * n["T"] * n["G"] * n["D"] * n["itemsize"],
    tolerance={dtype: (0.0, 0.0) for dtype in (torch.bfloat16, torch.float32, torch.float64)},
)
