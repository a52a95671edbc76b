"""Writing to the paged cache: a program holds all heads of a token."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from optimist.kernels.triton_common import launch, power_of_2, strides


@triton.jit
def _kv_write(
    kv: tl.tensor,
    cache: tl.tensor,
    slots: tl.tensor,
    s_t: tl.tensor,
    s_h: tl.tensor,
    s_cache: tl.tensor,
    scales: tl.tensor,
    MOST: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """cache[:, slots[t]] = kv[t] where slots[t] >= 0, grid (T,). s_cache: of a head of the cache.

    scales: of each head, with MOST, the largest that the cache can hold; or None.
    """
    i_t = tl.program_id(0).to(tl.int64)
    i_slot = tl.load(slots + i_t).to(tl.int64)
    if i_slot >= 0:
        o_h, o_d = tl.arange(0, BLOCK_H).to(tl.int64), tl.arange(0, BLOCK_D)
        m_kv = (o_h < HEADS)[:, None] & (o_d < D)[None, :]
        b_kv = tl.load(kv + i_t * s_t + o_h[:, None] * s_h + o_d[None, :], mask=m_kv)
        if scales is not None:
            b_scale = tl.load(scales + o_h, mask=o_h < HEADS, other=1.0)[:, None]
            b_kv = tl.clamp(b_kv.to(tl.float32) / b_scale, -MOST, MOST).to(cache.dtype.element_ty)
        p_cache = cache + i_slot * D + o_h[:, None] * s_cache + o_d[None, :]
        tl.store(p_cache, b_kv, mask=m_kv)


def kv_write(kv: Tensor, cache: Tensor, slots: Tensor, scales: Tensor | None = None) -> None:
    """As the reference. kv [T, 2G, D] may be strided; cache [2G, blocks + 2, P, D], each head dense."""
    tokens, heads, dim = kv.shape
    block_h, block_d = power_of_2(heads), power_of_2(dim)
    launch(
        _kv_write,
        (tokens,),
        *(kv, cache, slots, *strides(kv), cache.stride(0), scales),
        MOST=torch.finfo(cache.dtype).max,
        HEADS=heads,
        D=dim,
        BLOCK_H=block_h,
        BLOCK_D=block_d,
        num_warps=min(8, max(1, block_h * block_d // 512)),
    )
