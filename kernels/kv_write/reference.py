"""The spec of writing to the paged cache."""

from __future__ import annotations

import torch
from torch import Tensor


def kv_write(kv: Tensor, cache: Tensor, slots: Tensor) -> None:
    """Write kv [T, 2G, D], keys before values, into one layer's cache [2G, blocks + 2, P, D].

    slots: KV slot of each token, block * P + offset, [T] int64; -1 for padding, which no block that
    a row or a table can name ever shows. Rows own distinct slots.
    """
    flat = cache.flatten(1, 2)
    sink = flat.shape[1] - 1
    flat[:, torch.where(slots < 0, sink, slots)] = kv.transpose(0, 1)
