"""The spec of writing to the paged cache."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.card import wide


def kv_write(kv: Tensor, cache: Tensor, slots: Tensor, scales: Tensor | None = None) -> None:
    """Write kv [T, 2G, D], keys before values, into one layer's cache [2G, blocks + 2, P, D].

    slots: KV slot of each token, block * P + offset, [T] int64; -1 for padding, which no block that
    a row or a table can name ever shows. Rows own distinct slots. scales: of each head of a cache in a
    narrower dtype, [2G] float32: what is written is divided by them, and what is too large for the
    dtype becomes its largest.
    """
    flat = cache.flatten(1, 2)
    if scales is not None:
        # Bytes are moved: torch cannot index all narrow types.
        kv, flat = narrowed(kv, cache.dtype, scales).view(torch.uint8), flat.view(torch.uint8)
    sink = flat.shape[1] - 1
    flat[:, torch.where(slots < 0, sink, slots)] = kv.transpose(0, 1)


def narrowed(kv: Tensor, dtype: torch.dtype, scales: Tensor) -> Tensor:
    """Keys and values [T, 2G, D] as a cache of this dtype holds them."""
    most = torch.finfo(dtype).max
    return (kv.to(wide(kv.dtype)) / scales[:, None]).clamp(-most, most).to(dtype)
