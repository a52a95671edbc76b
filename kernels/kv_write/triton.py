"""Writing to the paged cache: a program holds all heads of a token."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from optimist.kernels.kv_cache import SCALE_BYTES, narrow
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
    P: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """cache[:, slots[t]] = kv[t] where slots[t] >= 0, grid (T,). s_cache: of a head of the cache.

    WIDTH: of a token in a block, its scale included. scales: the cache as float32, with MOST, the largest
    that its numbers can be; or None.
    """
    i_t = tl.program_id(0).to(tl.int64)
    i_slot = tl.load(slots + i_t).to(tl.int64)
    if i_slot >= 0:
        o_h, o_d = tl.arange(0, BLOCK_H).to(tl.int64), tl.arange(0, BLOCK_D)
        m_kv = (o_h < HEADS)[:, None] & (o_d < D)[None, :]
        i_block = i_slot // P
        p_kv = kv + i_t * s_t + o_h[:, None] * s_h + o_d[None, :]
        b_kv = tl.load(p_kv, mask=m_kv, other=0.0)
        if scales is not None:
            b_kv = b_kv.to(tl.float32)
            b_scale = tl.div_rn(tl.max(tl.abs(b_kv), 1), MOST)
            o_scale = (o_h * s_cache + i_block * (P * WIDTH) + P * D) // 4 + i_slot % P
            tl.store(scales + o_scale, b_scale, mask=o_h < HEADS)
            b_kv = tl.div_rn(b_kv, tl.where(b_scale > 0, b_scale, 1.0)[:, None])
            b_kv = tl.clamp(b_kv, -MOST, MOST, propagate_nan=tl.PropagateNan.ALL).to(
                cache.dtype.element_ty
            )
        o_token = i_block * (P * WIDTH) + i_slot % P * D
        tl.store(cache + o_token + o_h[:, None] * s_cache + o_d[None, :], b_kv, mask=m_kv)


def kv_write(kv: Tensor, cache: Tensor, slots: Tensor) -> None:
    """As the reference. kv [T, 2G, D] may be strided; cache [2G, blocks + 2, P, D], each head dense."""
    tokens, heads, dim = kv.shape
    block_h, block_d = power_of_2(heads), power_of_2(dim)
    scales = cache.view(torch.float32) if narrow(cache.dtype) else None
    launch(
        _kv_write,
        (tokens,),
        *(kv, cache, slots, *strides(kv), cache.stride(0), scales),
        MOST=torch.finfo(cache.dtype).max,
        HEADS=heads,
        P=cache.shape[2],
        D=dim,
        WIDTH=dim + (0 if scales is None else SCALE_BYTES),
        BLOCK_H=block_h,
        BLOCK_D=block_d,
        num_warps=min(8, max(1, block_h * block_d // 512)),
    )
