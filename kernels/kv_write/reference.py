"""The spec of writing to the paged cache."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.kv_cache import narrow, scaled


def kv_write(kv: Tensor, cache: Tensor, slots: Tensor) -> None:
    """Write kv [T, 2G, D], keys before values, into one layer's cache [2G, blocks + 2, P, D].

    slots: KV slot of each token, block * P + offset, [T] int64; -1 for padding, which no block that
    a row or a table can name ever shows. Rows own distinct slots. A cache of eight bits, see kv_cache,
    gets the scale of each head with its numbers: it takes the head's largest to the dtype's largest.
    """
    if not narrow(cache.dtype):
        _put(kv, cache, slots)
        return
    numbers, scales = scaled(cache)
    most = torch.finfo(cache.dtype).max
    wide = kv.to(torch.float32)
    scale = wide.abs().amax(-1) / most
    held = (wide / torch.where(scale > 0, scale, 1.0)[..., None]).clamp(-most, most)
    # Bytes are moved: torch cannot index all narrow types.
    _put(held.to(cache.dtype).view(torch.uint8), numbers.view(torch.uint8), slots)
    _put(scale, scales, slots)


def _put(values: Tensor, cache: Tensor, slots: Tensor) -> None:
    size = cache.shape[2]
    # Padding goes to the last place of the sink block.
    slots = torch.where(slots < 0, cache.shape[1] * size - 1, slots)
    cache[:, slots // size, slots % size] = values.transpose(0, 1)
