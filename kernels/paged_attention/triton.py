"""Attention over the paged cache on a GPU: which kernels a step launches, and how they are cut."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from optimist.kernels.kv_cache import SCALE_BYTES, narrow
from optimist.kernels.metadata import ExactMetadata, Metadata
from optimist.kernels.paged_attention.triton_device import attend, merge, rows_of_tiles
from optimist.kernels.triton_common import divided, launch, power_of_2, product, strides

PREFILL_M = 128
"""query tokens times heads of a program that prefills"""

DECODE_M = (16, 64)
"""the least and the most of a program that decodes; the least that matrix instructions take"""

WIDE_HEAD = 128
"""heads that are wider take smaller tiles: their values fill the registers"""

CONTEXT_OF_SPLIT = 256
"""tokens of context that are worth a program of their own"""

PROGRAMS_OF_PROCESSOR = 2
"""programs that keep a processor of the device busy: fewer, and context is split"""

MOST_SPLITS = 32


class Part(NamedTuple):
    """Neighbouring rows that are cut alike.

    first, rows: which. tokens: query tokens, as many as the host scheduled; longest: of one row.
    """

    first: int
    rows: int
    tokens: int
    longest: int


class Cut(NamedTuple):
    """How a kernel of `attend` is cut. m: query tokens times heads. tile: tokens of context at a time."""

    m: int
    tile: int
    warps: int
    stages: int


class Plan:
    """A step's rows as every layer's attention takes them. Nothing of it is read on the host.

    window: see the reference. splits: into how many parts context is split where rows decode; None
    decides from the bound and the device.
    """

    def __init__(self, metadata: Metadata, window: int | None, splits: int | None) -> None:
        self.metadata = metadata
        self.window = window
        self._splits = splits
        self._tiles: dict[tuple[int, int], Tensor] = {}

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Rows that decode and rows that prefill, where there are any: told by their phase."""
        offsets = self.metadata.query_offsets
        cuts = ((0, self.metadata.num_decodes), (self.metadata.num_decodes, offsets.size - 1))
        return tuple(
            Part(
                low,
                high - low,
                int(offsets[high] - offsets[low]),
                int(np.diff(offsets[low : high + 1]).max()),
            )
            for low, high in cuts
            if offsets[high] > offsets[low]
        )

    def decodes(self, part: Part) -> bool:
        """Whether the rows of a part decode."""
        return part.first < self.metadata.num_decodes

    def tiles(self, part: Part, block_q: int) -> Tensor:
        """The row of each tile of so many query tokens, -1 where there is none, int32; once a step."""
        key = (part.first, block_q)
        if key not in self._tiles:
            starts = self.metadata.query_start_loc
            tiles = torch.empty(
                part.tokens // block_q + part.rows, dtype=torch.int32, device=starts.device
            )
            launch(
                rows_of_tiles,
                (part.rows + 1,),
                *(starts, tiles, part.first, part.rows, tiles.shape[0]),
                BLOCK_Q=block_q,
                BLOCK=32,
                num_warps=1,
            )
            self._tiles[key] = tiles
        return self._tiles[key]

    def splits(self, part: Part, programs: int) -> int:
        """Into how many parts context is split: 1 where there are programs enough without.

        Programs count for as much as their rows may have to read: of one long row among many short ones
        the others are done when it has hardly begun.
        """
        if not self.decodes(part):
            return 1
        wanted = self._splits
        if wanted is None:
            busy = max(1, int(programs * self._evenness))
            wanted = PROGRAMS_OF_PROCESSOR * _processors(self.metadata.seq_lens.device) // busy
            # bound, sizing: into how many parts the context is split; each ends at device lengths
            wanted = min(wanted, divided(self.metadata.max_seq_len, CONTEXT_OF_SPLIT), MOST_SPLITS)
            # A power of two: the kernel that merges them is another for each number.
            wanted = power_of_2(wanted + 1) // 2
        return max(1, wanted)

    @cached_property
    def _evenness(self) -> float:
        """What rows that decode have to read at most, as a share of what it were if all were as long."""
        metadata, rows = self.metadata, self.metadata.num_decodes
        if isinstance(metadata, ExactMetadata):
            lens = metadata.host_lens.rows(0, rows)
            # bound, sizing: exact here: how uneven rows are, for the number of parts
            return lens.total() / max(1, lens.max() * rows)
        # bound, sizing: how uneven rows are, for the number of parts; each ends at device lengths
        return metadata.decode_bound.total() / max(1, metadata.decode_bound.max() * rows)


def prepare(
    metadata: Metadata,
    cache: Tensor,
    *,
    dtype: torch.dtype,
    window: int | None,
    splits: int | None = None,
) -> Plan:
    """What the layers of a step share. cache, dtype: not needed, as other versions' `prepare` has them."""
    return Plan(metadata, window, splits)


def paged_attention(
    q: Tensor,
    cache: Tensor,
    plan: Plan,
    *,
    scale: float,
    softcap: float | None = None,
) -> Tensor:
    """As the reference, for the rows and window of `plan`.

    q: [T, H, D], may be strided. cache: of one layer, [2G, blocks + 2, P, D], each head dense. Returns
    [T, H, D].
    """
    scheduled = sum(part.tokens for part in plan.parts)
    make = torch.empty if scheduled == q.shape[0] else torch.zeros
    out = make(q.shape, dtype=q.dtype, device=q.device)
    for part in plan.parts:
        _attend(q, cache, out, plan, part, scale, softcap)
    return out


def cut_of(
    part: Part,
    group: int,
    dim: int,
    held: torch.dtype,
    *,
    decodes: bool,
    windowed: bool,
    whole: bool,
) -> Cut:
    """The configuration for rows like these. held: by the cache. whole: multiplied in 32 bits."""
    low, high = DECODE_M
    m = min(max(power_of_2(group * part.longest), low), high)
    amd = held == torch.float8_e4m3fnuz
    if whole:
        cut = _whole_cut(m if decodes else high, group, dim)
        return cut._replace(stages=1) if amd else cut
    if not decodes:
        m = PREFILL_M if dim <= WIDE_HEAD else PREFILL_M // 2
    m = max(m, power_of_2(group))
    if narrow(held):
        return _narrow_cut(m, dim, amd=amd)
    tile = 32 if dim > WIDE_HEAD or (windowed and not decodes) else 64
    if m >= 64:
        return Cut(m, tile, warps=8, stages=2)
    # Of the stages that fit, those for which no target keeps a register in memory.
    return Cut(m, tile, warps=4, stages=2 if m == 32 and dim <= WIDE_HEAD else 3)


def _whole_cut(m: int, group: int, dim: int) -> Cut:
    """For numbers of 32 bits: twice the memory, and three products of each, see `product`."""
    wider = dim > WIDE_HEAD
    most = DECODE_M[0] if wider else 32 if dim > WIDE_HEAD // 2 else DECODE_M[1]
    m = max(min(m, most), power_of_2(group))
    few = m == DECODE_M[0] and not wider
    return Cut(m, 16 if wider else 32, warps=4 if few else 8, stages=2)


def _narrow_cut(m: int, dim: int, *, amd: bool) -> Cut:
    """For a cache of eight bits: its numbers are widened in registers, so that tiles are smaller.

    AMD's compiler keeps the next tile in registers too, and has none left where programs are large.
    """
    if m < DECODE_M[1]:
        few = m == DECODE_M[0] and dim <= WIDE_HEAD // 2
        stages = 3 if not amd else 2 if m == DECODE_M[0] else 1
        return Cut(m, 32, warps=2 if few else 4, stages=stages)
    return Cut(m, 16 if amd and dim > WIDE_HEAD else 32, warps=8, stages=1 if amd else 2)


def _attend(
    q: Tensor,
    cache: Tensor,
    out: Tensor,
    plan: Plan,
    part: Part,
    scale: float,
    softcap: float | None,
) -> None:
    heads, dim = q.shape[1:]
    groups, size = cache.shape[0] // 2, cache.shape[2]
    group = heads // groups
    windowed = plan.window is not None
    decodes = plan.decodes(part)
    whole = q.itemsize >= torch.float32.itemsize
    cut = cut_of(part, group, dim, cache.dtype, decodes=decodes, windowed=windowed, whole=whole)
    tiles = plan.tiles(part, cut.m // group)
    splits = plan.splits(part, tiles.shape[0] * groups)
    parts, mass = out, None
    if splits > 1:
        wide = torch.promote_types(q.dtype, torch.float32)
        parts = torch.empty((part.tokens, heads, splits, dim), dtype=wide, device=q.device)
        mass = torch.empty((part.tokens, heads, splits), dtype=wide, device=q.device)
    metadata = plan.metadata
    scales = cache.view(torch.float32) if narrow(cache.dtype) else None
    launch(
        attend,
        (tiles.shape[0], groups, splits),
        *(q, cache, parts, mass, tiles),
        *(metadata.query_start_loc, metadata.seq_lens, metadata.block_table, scales),
        *(part.first, scale, softcap, plan.window),
        *(*strides(q), cache.stride(0), metadata.block_table.stride(0)),
        GROUP=group,
        D=dim,
        P=size,
        WIDTH=dim + (0 if scales is None else SCALE_BYTES),
        BLOCK_M=cut.m,
        BLOCK_D=max(16, power_of_2(dim)),
        TILE=cut.tile,
        PRODUCT=product(q.dtype),
        num_warps=cut.warps,
        num_stages=cut.stages,
    )
    if splits > 1:
        launch(
            merge,
            (part.tokens, heads),
            *(parts, mass, out),
            SPLITS=splits,
            D=dim,
            BLOCK_S=power_of_2(splits),
            BLOCK_D=power_of_2(dim),
            num_warps=max(1, power_of_2(splits) * power_of_2(dim) // 1024),
        )


def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
