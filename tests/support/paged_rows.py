"""Rows of a step over a paged cache, for tests of kernels: ragged, with garbage where nobody may look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from optimist.kernels import kv_cache
from optimist.kernels.metadata import ExactMetadata, OptimisticMetadata
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound


class Shape(NamedTuple):
    """heads: query heads. groups: KV heads. dim: of a head. size: tokens of a block."""

    heads: int = 9
    groups: int = 3
    dim: int = 16
    size: int = 4
    dtype: torch.dtype = torch.float32


PLAIN = Shape()


class Paged(NamedTuple):
    q: Tensor
    cache: Tensor
    metadata: ExactMetadata


def paged(
    queries: Sequence[int], lengths: Sequence[int], shape: Shape = PLAIN, *, padding: int = 0
) -> Paged:
    """Rows with these query lengths and lengths; a row of length 0 is padding, as are `padding` tokens.

    Each row owns just the blocks it needs. All other blocks hold NaN, and what follows a row's last
    token in its last block holds what a former owner might have left: large numbers.
    """
    generator = torch.Generator().manual_seed(len(queries) * 1000 + sum(lengths))
    blocks = [-(-length // shape.size) for length in lengths]
    cache = kv_cache.allocate(1, shape.groups, sum(blocks) + 3, shape.size, shape.dim, shape.dtype)[
        0
    ]
    null = kv_cache.null_block(cache)
    order = torch.randperm(sum(blocks) + 3, generator=generator).to(torch.int32)
    cache[:, :null] = torch.nan
    table = torch.full((len(queries), max([*blocks, 1]) + 1), null, dtype=torch.int32)
    taken = 0
    for row, (count, length) in enumerate(zip(blocks, lengths, strict=True)):
        table[row, :count] = order[taken : taken + count]
        taken += count
        for position in range(count * shape.size):
            block, offset = int(table[row, position // shape.size]), position % shape.size
            values = torch.randn(cache.shape[0], shape.dim, generator=generator)
            cache[:, block, offset] = values * (1 if position < length else 100)
    tokens = sum(queries) + padding
    q = torch.randn(tokens, shape.heads, shape.dim, generator=generator).to(shape.dtype)
    return Paged(q, cache, _metadata(queries, lengths, table, tokens, shape))


def _metadata(
    queries: Sequence[int], lengths: Sequence[int], table: Tensor, tokens: int, shape: Shape
) -> ExactMetadata:
    offsets = np.concatenate(([0], np.cumsum(queries))).astype(np.int32)
    slots = torch.full((tokens,), -1, dtype=torch.int64)
    for row, (query, length) in enumerate(zip(queries, lengths, strict=True)):
        for i in range(query):
            position = length - query + i
            block = int(table[row, position // shape.size])
            slots[offsets[row] + i] = block * shape.size + position % shape.size
    return ExactMetadata(
        query_start_loc=torch.from_numpy(offsets.copy()),
        seq_lens=torch.tensor(lengths, dtype=torch.int32),
        block_table=table,
        slot_mapping=slots,
        query_offsets=offsets,
        max_query_len=max(queries, default=0),
        max_seq_len=max(lengths, default=0),
        num_decodes=int(np.cumprod(np.array(queries) == 1).sum()),
        is_prefilling=np.array(queries) > 1,
        host_lens=ExactSeqLens.of(lengths),
    )


def on(case: Paged, device: str) -> Paged:
    """The same rows on a device."""
    moved = {
        name: getattr(case.metadata, name).to(device)
        for name in ("query_start_loc", "seq_lens", "block_table", "slot_mapping")
    }
    return Paged(case.q.to(device), case.cache.to(device), replace(case.metadata, **moved))


def optimistic(exact: ExactMetadata, slack: int) -> OptimisticMetadata:
    """The same rows, of whose decode rows the host knows only a bound that is `slack` too large."""
    lengths, decodes = exact.host_lens.exact(), exact.num_decodes
    return OptimisticMetadata(
        query_start_loc=exact.query_start_loc,
        seq_lens=exact.seq_lens,
        block_table=exact.block_table,
        slot_mapping=exact.slot_mapping,
        query_offsets=exact.query_offsets,
        max_query_len=exact.max_query_len,
        max_seq_len=exact.max_seq_len + slack,
        num_decodes=decodes,
        is_prefilling=exact.is_prefilling,
        decode_bound=SeqLensUpperBound.of(lengths[:decodes] + slack),
        prefill_lens=ExactSeqLens.of(lengths[decodes:]),
    )
