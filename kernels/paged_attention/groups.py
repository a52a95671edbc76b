"""How attention on a CPU is cut into matrix products: decided once a step, used by every layer.

Bounds and query lengths, which the host has, decide shapes; device lengths decide masks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.kernels.device import upload
from optimist.kernels.metadata import ExactMetadata, Metadata

TILE = 64
"""query tokens of a long row that share one product: their scores fit in a core's cache"""

SHORT = 32
"""query tokens up to which rows with equally many share their products: a token and its drafts"""

SPLIT_BYTES = 1 << 20
"""KV bytes a layer must save before rows are cut into one more group"""

Rows = NDArray[np.int64]


class Tile(NamedTuple):
    """Query tokens of a group that see the same columns.

    tokens: which, rows * queries of them, row by row: a range, or indices [rows * queries] int64.
    mask: added to scores, [rows, 1, queries, columns]; 0 where seen, hugely negative elsewhere.
    """

    tokens: slice | Tensor
    queries: int
    columns: int
    mask: Tensor


class Group(NamedTuple):
    """Rows whose KV is gathered together. blocks: [rows * n] int32, row by row."""

    rows: int
    blocks: Tensor
    tiles: tuple[Tile, ...]


def prepare(
    metadata: Metadata, cache: Tensor, *, dtype: torch.dtype, window: int | None
) -> tuple[Group, ...]:
    """Cut a step into groups. cache: [..., 2G, blocks + 2, P, D], of which only the shape is read."""
    lengths = _sizes(metadata)
    queries = np.diff(metadata.query_offsets).astype(np.int64)
    size = cache.shape[-2]
    block_bytes = cache.shape[-4] * size * cache.shape[-1] * cache.element_size()
    short, long = queries <= SHORT, np.flatnonzero(queries > SHORT)
    worth = max(1, SPLIT_BYTES // block_bytes)
    groups = [
        rows
        for query in np.unique(queries[short])
        for rows in _alike(np.flatnonzero(queries == query), -(-lengths // size), worth)
    ]
    groups += list(long.reshape(-1, 1))
    return tuple(_group(metadata, rows, lengths, size, dtype, window) for rows in groups)


def _sizes(metadata: Metadata) -> Rows:
    if isinstance(metadata, ExactMetadata):
        return metadata.host_lens.exact().astype(np.int64)
    # bound, sizing: as many blocks are gathered as the bound needs; the mask, made from device
    # lengths, hides what lies behind the true end
    bound = metadata.decode_bound.sizing_array(reader="paged_attention.groups")
    # bound, exact on prefill rows: their share of the same sizes
    return np.concatenate((bound, metadata.prefill_lens.exact())).astype(np.int64)


def _alike(rows: Rows, blocks: Rows, worth: int) -> list[Rows]:
    """Rows in groups of similar size: padding all to the longest is cut where it saves `worth` blocks."""
    if not rows.size:
        return []
    order = rows[np.argsort(-blocks[rows], kind="stable")]
    need = blocks[order]
    saved = (need[0] - need) * (need.size - np.arange(need.size))
    cut = int(saved.argmax())
    if saved[cut] <= worth:
        return [np.sort(order)]
    return [np.sort(order[:cut]), *_alike(order[cut:], blocks, worth)]


def _group(
    metadata: Metadata,
    rows: Rows,
    lengths: Rows,
    size: int,
    dtype: torch.dtype,
    window: int | None,
) -> Group:
    starts = metadata.query_offsets[rows].astype(np.int64)
    queries = int(metadata.query_offsets[rows[0] + 1] - starts[0])
    longest = int(lengths[rows].max())
    chosen = _pick(rows, metadata.seq_lens.device)
    lens = metadata.seq_lens[chosen][:, None]
    table = metadata.block_table[chosen][:, : -(-longest // size)]
    blocks, columns = _columns(table, lens, queries, size, window)
    tiles = []
    for low in range(0, queries, TILE):
        high = min(low + TILE, queries)
        width = columns.shape[1]
        if queries > TILE and window is None:
            width = min(width, longest - queries + high)
        at = lens - queries + torch.arange(low, high, device=lens.device)
        mask = _mask(columns[:, None, :width], at[:, :, None], window, dtype)
        which = (starts[:, None] + np.arange(low, high)).reshape(-1)
        tokens = _pick(which, lens.device)
        tiles.append(Tile(tokens, high - low, width, mask[:, None]))
    return Group(rows.size, blocks.reshape(-1), tuple(tiles))


def _columns(
    table: Tensor, lens: Tensor, queries: int, size: int, window: int | None
) -> tuple[Tensor, Tensor]:
    """Which blocks the rows read, [rows, n], and the position of each of their tokens, [., n * size].

    With a window these are the blocks near the end, wherever the device says that the end is.
    """
    near = table.shape[1] if window is None else -(-(window + queries - 1) // size) + 1
    if window is None or near >= table.shape[1]:
        return table, torch.arange(table.shape[1] * size, device=lens.device)[None]
    first = (lens - queries - window + 1).clamp_(min=0) // size
    index = first + torch.arange(near, device=lens.device)
    blocks = table.gather(1, index.clamp(max=table.shape[1] - 1).long())
    return blocks, first * size + torch.arange(near * size, device=lens.device)


def _pick(indices: Rows, device: torch.device) -> slice | Tensor:
    """A slice where the indices are neighbours: it copies nothing."""
    low, high = int(indices[0]), int(indices[-1])
    if high - low + 1 == indices.size:
        return slice(low, high + 1)
    return upload(indices, device)


def _mask(columns: Tensor, at: Tensor, window: int | None, dtype: torch.dtype) -> Tensor:
    seen = columns <= at
    if window is not None:
        seen &= columns > at - window
    # Finite, so that a row that sees nothing, which nobody reads, does not turn into NaN.
    hidden = torch.finfo(dtype).min / 2
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, hidden)
