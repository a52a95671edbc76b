"""Writing to the paged cache in one torch operator."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.kv_write.reference import narrowed


def kv_write(kv: Tensor, cache: Tensor, slots: Tensor, scales: Tensor | None = None) -> None:
    """As the reference: a slot of -1 wraps around to the last one, in the sink block."""
    if scales is not None:
        kv, cache = narrowed(kv, cache.dtype, scales).view(torch.uint8), cache.view(torch.uint8)
    torch.ops.aten.index_put_(cache.flatten(1, 2), [None, slots], kv.transpose(0, 1))
