"""Attention over the paged cache by torch's scaled_dot_product_attention, for GPUs without Triton.

The query heads that share a KV head are queries of it: keys and values are gathered, never repeated.
"""

from __future__ import annotations

from functools import partial

import torch.nn.functional as F
from torch import Tensor

from optimist.kernels.paged_attention import cpu
from optimist.kernels.paged_attention.groups import Group, Tile


def paged_attention(
    q: Tensor,
    cache: Tensor,
    groups: tuple[Group, ...],
    *,
    scale: float,
    softcap: float | None = None,
) -> Tensor:
    """As the CPU's, which also computes where scores are capped: torch's own cannot."""
    if softcap is not None:
        return cpu.paged_attention(q, cache, groups, scale=scale, softcap=softcap)
    return cpu.over_groups(q, cache, groups, partial(_attend, scale=scale))


def _attend(q: Tensor, keys: Tensor, values: Tensor, tile: Tile, *, scale: float) -> Tensor:
    rows, queries, columns = tile.mask.shape[0], tile.queries, tile.columns
    heads, dim = q.shape[1:]
    groups = keys.shape[0] // rows
    share = heads // groups
    q = q.view(rows, queries, groups, share, dim).permute(0, 2, 3, 1, 4)
    keys, values = (
        part[:, :columns].view(groups, rows, columns, dim).transpose(0, 1)
        for part in (keys, values)
    )
    mask = tile.mask[:, :, None].expand(rows, 1, share, queries, columns)
    out = F.scaled_dot_product_attention(
        q.reshape(rows, groups, share * queries, dim),
        keys,
        values,
        mask.reshape(rows, 1, share * queries, columns),
        scale=scale,
    )
    out = out.view(rows, groups, share, queries, dim).permute(0, 3, 1, 2, 4)
    return out.reshape(rows * queries, heads, dim)
