"""The paged cache: one tensor for all layers, and two blocks that no row owns.

A cache of eight bits has a scale for each head of each token: the P scales of a block, float32, lie behind
its P * D numbers. So what is copied, shared or cleared with a block has its scales with it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from optimist.kernels.device import upload
from optimist.messages.errors import ConfigError

SPARE_BLOCKS = 2
"""the null block, which fills block tables behind a row's last block, and the sink of padding tokens"""


SCALE_BYTES = 4
"""of a head's scale, in a cache of eight bits"""


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

    One of eight bits is [layers, 2G, blocks + 2, P, D + 4]: see `scaled`. Raises ConfigError where the
    scales of a block would not begin at a multiple of their size.

    Only the null block is written here. `clear` a block before a row gets it: masked positions are
    multiplied by zero, which takes a NaN that another request left there for no zero.
    """
    if narrow(dtype) and block_size * head_dim % SCALE_BYTES:
        raise ConfigError(
            f"worker.kv_dtype: a cache of eight bits needs blocks of a multiple of {SCALE_BYTES} bytes, "
            f"got block_size {block_size} and heads of {head_dim}"
        )
    width = head_bytes(head_dim, dtype) // dtype.itemsize
    shape = (layers, 2 * kv_heads, blocks + SPARE_BLOCKS, block_size, width)
    cache = torch.empty(shape, dtype=dtype, device=device)
    clear(cache, (null_block(cache),))
    return cache


def null_block(cache: Tensor) -> int:
    """The block of zeros. cache: of all layers or of one."""
    return cache.shape[-3] - SPARE_BLOCKS


def clear(cache: Tensor, blocks: tuple[int, ...]) -> None:
    """Zero these blocks in every layer."""
    if cache.device.type == "cpu":
        for block in blocks:
            cache[:, :, block].zero_()
    elif blocks:
        clear_at_once(cache, blocks)


def clear_at_once(cache: Tensor, blocks: tuple[int, ...]) -> None:
    """The same in one launch, which only a GPU does fast. Heads have a multiple of four bytes."""
    # Words, because torch cannot fill all narrow types.
    words = cache.view(torch.int32)
    words.index_fill_(2, upload(np.array(blocks, np.int64), cache.device), 0)


def block_bytes(
    layers: int, kv_heads: int, block_size: int, head_dim: int, dtype: torch.dtype
) -> int:
    """Bytes of one block over all layers."""
    return 2 * layers * kv_heads * block_size * head_bytes(head_dim, dtype)


def narrow(dtype: torch.dtype) -> bool:
    """Whether a cache of this dtype holds numbers of eight bits, and scales."""
    return dtype.is_floating_point and dtype.itemsize == 1


def head_bytes(head_dim: int, dtype: torch.dtype) -> int:
    """Bytes of a head of a token, its scale included."""
    return head_dim * dtype.itemsize + SCALE_BYTES * narrow(dtype)


def scaled(cache: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers [2G, ., P, D] and scales [2G, ., P] float32 of a layer's cache of eight bits, in its memory.

    A key or value is its number times its scale.
    """
    heads, blocks, size, width = cache.shape
    flat, dim = cache.view(heads, blocks, size * width), width - SCALE_BYTES
    numbers = flat[..., : size * dim].view(heads, blocks, size, dim)
    return numbers, flat[..., size * dim :].view(torch.float32)
