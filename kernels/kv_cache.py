"""The paged cache: one tensor for all layers, and two blocks that no row owns."""

from __future__ import annotations

import torch
from torch import Tensor

SPARE_BLOCKS = 2
"""the null block, which fills block tables behind a row's last block, and the sink of padding tokens"""


def allocate(
    layers: int,
    kv_heads: int,
    blocks: int,
    block_size: int,
    head_dim: int,
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> Tensor:
    """A cache [layers, 2G, blocks + 2, P, D]: keys of all heads, then values, as attention reads them.

    Only the null block is written here. `clear` a block before a row gets it: masked positions are
    multiplied by zero, which takes a NaN that another request left there for no zero.
    """
    shape = (layers, 2 * kv_heads, blocks + SPARE_BLOCKS, block_size, head_dim)
    cache = torch.empty(shape, dtype=dtype, device=device)
    clear(cache, (null_block(cache),))
    return cache


def null_block(cache: Tensor) -> int:
    """The block of zeros. cache: of all layers or of one."""
    return cache.shape[-3] - SPARE_BLOCKS


def clear(cache: Tensor, blocks: tuple[int, ...]) -> None:
    """Zero these blocks in every layer."""
    for block in blocks:
        cache[:, :, block].zero_()


def block_bytes(
    layers: int, kv_heads: int, block_size: int, head_dim: int, dtype: torch.dtype
) -> int:
    """Bytes of one block over all layers."""
    return 2 * layers * kv_heads * block_size * head_dim * dtype.itemsize
