"""Who attends in `optimist bench attention`: each from the same queries, cache and metadata."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from optimist.bench.batches import BLOCK
from optimist.bench.timing import Run
from optimist.kernels.choice import TORCH, triton_kernels
from optimist.kernels.metadata import Metadata
from optimist.kernels.native.library import missing


class Inputs(NamedTuple):
    """q: [T, H, D]. cache: one layer's, [2 G, blocks, BLOCK, D]. lengths: of the rows, on the host."""

    q: Tensor
    cache: Tensor
    metadata: Metadata
    lengths: list[int]

    @property
    def scale(self) -> float:
        """Of scores."""
        return float(self.q.shape[-1] ** -0.5)

    @property
    def queries(self) -> list[int]:
        """Of each row."""
        return [int(one) for one in np.diff(self.metadata.query_offsets)]

    def keys_and_values(self, row: int) -> Tensor:
        """A row's, gathered from its blocks, [2 G, C, D]."""
        length = self.lengths[row]
        blocks = self.metadata.block_table[row, : -(-length // BLOCK)].long()
        return self.cache.index_select(1, blocks).flatten(1, 2)[:, :length]


class Prepared(NamedTuple):
    """attend: what is measured. before: what it needed, which is measured apart. less: `before` is part of it."""

    attend: Run
    before: Run | None = None
    less: bool = False


class Backend(NamedTuple):
    """there: it goes to the device, not to the CPU. how: in words."""

    there: bool
    prepare: Callable[[Inputs], Prepared]
    how: str


def _triton(given: Inputs) -> Prepared:
    at = given.q.device
    kernels = triton_kernels("cpu" if at.type == "cpu" else str(at))
    plan = kernels.prepare(given.metadata, given.cache, dtype=given.q.dtype, window=None)
    return Prepared(lambda: kernels.paged_attention(given.q, given.cache, plan, scale=given.scale))


def _gathered(given: Inputs) -> Prepared:
    groups = TORCH.prepare(given.metadata, given.cache, dtype=given.q.dtype, window=None)
    return Prepared(lambda: TORCH.paged_attention(given.q, given.cache, groups, scale=given.scale))


def _native(given: Inputs) -> Prepared:
    """The library's own, which also rotates (by nothing, here) and fills a cache: measured apart, and less."""
    from optimist.kernels.native import operators

    heads, dim = given.q.shape[1:]
    rows = []
    for row, (low, high) in enumerate(pairwise(given.metadata.query_offsets.tolist())):
        kv = given.keys_and_values(row).float().permute(1, 0, 2)
        q = kv.new_zeros(kv.shape[0], heads, dim)
        q[low - high :] = given.q[low:high].float()
        turns = np.concatenate([np.ones((len(kv), dim // 2)), np.zeros((len(kv), dim // 2))], 1)
        table = np.arange(-(-len(kv) // BLOCK), dtype=np.int32)
        made = np.ascontiguousarray(torch.cat((q, kv), 1).numpy())
        rows.append((made, turns.astype(np.float32), table, high - low))

    def run(queried: bool) -> Tensor:
        found = [
            operators.attention(
                made, turns, table, heads=heads, block_size=BLOCK, queries=queries if queried else 0
            )
            for made, turns, table, queries in rows
        ]
        return torch.from_numpy(np.concatenate(found))

    return Prepared(lambda: run(True), lambda: run(False), less=True)


def _cpu(given: Inputs) -> Prepared:
    return _gathered(given) if missing() else _native(given)


class _Alike(NamedTuple):
    """Rows of the same query and length, which stand side by side. q: where their queries are."""

    first: int
    rows: int
    query: int
    length: int
    q: slice


def alike(queries: list[int], lengths: list[int]) -> list[_Alike]:
    """Rows that one call can attend for."""
    found, at, token = [], 0, 0
    for (query, length), same in groupby(zip(queries, lengths, strict=True)):
        rows = len(list(same))
        part = slice(token, token + rows * query)
        found.append(_Alike(at, rows, query, length, part))
        at, token = at + rows, part.stop
    return found


def _sdpa(given: Inputs) -> Prepared:
    parts = alike(given.queries, given.lengths)

    def gather() -> list[Tensor]:
        return [
            torch.stack([given.keys_and_values(part.first + i) for i in range(part.rows)])
            for part in parts
        ]

    gathered = gather()
    masks = [_mask(part, given) for part in parts]

    def attend() -> Tensor:
        outs = [
            _one_call(part, given, kv, mask)
            for part, kv, mask in zip(parts, gathered, masks, strict=True)
        ]
        return torch.cat(outs)

    return Prepared(attend, lambda: gather()[0])


def _mask(part: _Alike, given: Inputs) -> Tensor | None:
    """Where torch's fastest kernels need no mask there is none."""
    if part.query in (1, part.length):
        return None
    at = torch.arange(part.length - part.query, part.length, device=given.q.device)
    seen = torch.arange(part.length, device=at.device) <= at[:, None]
    share = given.q.shape[1] // (given.cache.shape[0] // 2)
    return seen.repeat(share, 1)


def _one_call(part: _Alike, given: Inputs, kv: Tensor, mask: Tensor | None) -> Tensor:
    """kv: [rows, 2 G, C, D]. [rows * query, H, D]."""
    heads, dim = given.q.shape[1:]
    keys, values = kv.chunk(2, 1)
    q = given.q[part.q].view(part.rows, part.query, heads, dim).transpose(1, 2)
    if mask is None and part.query > 1:
        y = F.scaled_dot_product_attention(
            q, keys, values, is_causal=True, scale=given.scale, enable_gqa=True
        )
    else:
        # Query heads of one key head are queries of it, so that every kernel of torch's may be taken.
        wide = q.reshape(part.rows, keys.shape[1], -1, dim)
        y = F.scaled_dot_product_attention(wide, keys, values, attn_mask=mask, scale=given.scale)
        y = y.reshape(part.rows, heads, part.query, dim)
    return y.transpose(1, 2).reshape(-1, heads, dim)


def _flash(given: Inputs) -> Prepared:
    attention: Any = import_module("flash_attn").flash_attn_varlen_func
    at, queries, lengths = given.q.device, given.queries, given.lengths

    def gather() -> Tensor:
        rows = [given.keys_and_values(row).permute(1, 0, 2) for row in range(len(lengths))]
        return torch.cat(rows)

    keys, values = (half.contiguous() for half in gather().chunk(2, 1))
    ends = torch.tensor([0, *np.cumsum(lengths).tolist()], dtype=torch.int32, device=at)
    starts = given.metadata.query_start_loc

    def attend() -> Tensor:
        out: Tensor = attention(
            *(given.q, keys, values, starts, ends, max(queries), max(lengths)),
            softmax_scale=given.scale,
            causal=True,
        )
        return out

    return Prepared(attend, gather)


BACKENDS = {
    "triton": Backend(True, _triton, "compiled"),
    "cpu": Backend(
        False,
        _cpu,
        "gathers and batched products on the CPU"
        if missing()
        else "the native library, one thread, row after row",
    ),
    "torch": Backend(True, _sdpa, "torch's scaled_dot_product_attention, one call for rows alike"),
    "flash": Backend(True, _flash, "FlashAttention of variable lengths"),
}


def has_flash() -> bool:
    """Whether FlashAttention is installed."""
    return find_spec("flash_attn") is not None
