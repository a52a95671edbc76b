"""Attention over the paged cache as gathers and batched matrix products."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from optimist.kernels.paged_attention.groups import Group, Tile

Attend = Callable[[Tensor, Tensor, Tensor, Tile], Tensor]
"""(queries, keys, values, tile): of a tile's query tokens, [rows * queries, H, D]"""


def paged_attention(
    q: Tensor,
    cache: Tensor,
    groups: tuple[Group, ...],
    *,
    scale: float,
    softcap: float | None = None,
) -> Tensor:
    """As the reference, with the step's rows and window already cut into `groups` by `prepare`.

    q: [T, H, D], may be strided. cache: of one layer, [2G, blocks + 2, P, D]. Returns [T, H, D].
    """
    return over_groups(q, cache, groups, partial(_attend, scale=scale, softcap=softcap))


def over_groups(q: Tensor, cache: Tensor, groups: tuple[Group, ...], attend: Attend) -> Tensor:
    """What `attend` says of the query tokens of each tile, [T, H, D]; zeros for padding."""
    if len(groups) == 1 and len(groups[0].tiles) == 1 and _covers(groups[0].tiles[0], q.shape[0]):
        keys, values = _gather(cache, groups[0])
        return attend(q, keys, values, groups[0].tiles[0])
    out = torch.zeros(q.shape, dtype=q.dtype, device=q.device)
    for group in groups:
        keys, values = _gather(cache, group)
        for tile in group.tiles:
            out[tile.tokens] = attend(q[tile.tokens], keys, values, tile)
    return out


def _covers(tile: Tile, tokens: int) -> bool:
    return isinstance(tile.tokens, slice) and tile.tokens == slice(0, tokens)


def _gather(cache: Tensor, group: Group) -> tuple[Tensor, Tensor]:
    """Keys and values of the group's rows, [G * rows, columns, D] each."""
    heads, _, size, dim = cache.shape
    columns = group.blocks.shape[0] // group.rows * size
    kv = cache.index_select(1, group.blocks)
    keys, values = kv.view(2, heads // 2 * group.rows, columns, dim).unbind(0)
    return keys, values


def _attend(
    q: Tensor, keys: Tensor, values: Tensor, tile: Tile, *, scale: float, softcap: float | None
) -> Tensor:
    rows, queries, columns = tile.mask.shape[0], tile.queries, tile.columns
    heads, dim = q.shape[1:]
    groups = keys.shape[0] // rows
    shape = (groups, rows, heads // groups, queries)
    q = q.view(rows, queries, groups, heads // groups, dim).permute(2, 0, 3, 1, 4)
    q = q.reshape(groups * rows, -1, dim)
    scores = torch.bmm(q, keys[:, :columns].transpose(1, 2)).view(*shape, columns)
    if softcap is not None:
        scores = scores.mul_(scale / softcap).tanh_().mul_(softcap)
        scale = 1.0
    weights = torch.softmax(torch.add(tile.mask, scores, alpha=scale), -1)
    out = torch.bmm(weights.view(groups * rows, -1, columns), values[:, :columns])
    return out.view(*shape, dim).permute(1, 3, 0, 2, 4).reshape(rows * queries, heads, dim)
