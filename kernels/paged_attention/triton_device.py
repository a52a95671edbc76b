"""Attention over the paged cache on the device: online softmax over tiles of context, one interface for all rows.

A program attends with a tile of query tokens of one row, times the query heads that share a KV head.
Which row a tile belongs to is written down once a step, from the device's own `query_start_loc`.
Bounds decide how many programs there are; device lengths decide what each of them reads.
"""

from __future__ import annotations

import triton
import triton.language as tl

from optimist.kernels.triton_common import wide

HIDDEN = tl.constexpr(-1.0e30)
"""a score that nothing real is below: finite, so that a tile in which a query sees nothing is no NaN"""

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def base(starts: tl.tensor, i_row: tl.tensor, first: tl.tensor, BLOCK_Q: tl.constexpr) -> tl.tensor:
    """The first tile of a row: rows before it cannot have more. first: row of the first tile of all."""
    return (tl.load(starts + i_row) - tl.load(starts + first)) // BLOCK_Q + i_row - first


@triton.jit(do_not_specialize=["first", "rows", "tiles"])
def rows_of_tiles(
    starts: tl.tensor,
    out: tl.tensor,
    first: tl.tensor,
    rows: tl.tensor,
    tiles: tl.tensor,
    BLOCK_Q: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """out [tiles] = the row of each tile, -1 where there is none; grid (rows + 1,)."""
    i_row = first + tl.program_id(0)
    low, high, count = base(starts, i_row, first, BLOCK_Q), tiles, 0
    if i_row < first + rows:
        high = base(starts, i_row + 1, first, BLOCK_Q)
        queries = tl.load(starts + i_row + 1) - tl.load(starts + i_row)
        count = (queries + BLOCK_Q - 1) // BLOCK_Q
    for i_tile in range(low, high, BLOCK):
        o_tile = i_tile + tl.arange(0, BLOCK)
        tl.store(out + o_tile, tl.where(o_tile < low + count, i_row, -1), mask=o_tile < high)


@triton.jit
def _span(
    i_first: tl.tensor,
    last: tl.tensor,
    window: tl.tensor,
    i_split: tl.tensor,
    splits: tl.tensor,
    TILE: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Positions that this split of a tile looks at. i_first, last: positions of its first and last query."""
    low, high = 0, last + 1
    if window is not None:
        low = tl.maximum(i_first - window + 1, 0)
    share = tl.cdiv(tl.cdiv(high - low, TILE), splits) * TILE
    low += i_split * share
    return low, tl.minimum(high, low + share)


@triton.jit
def _scores(
    b_q: tl.tensor, b_k: tl.tensor, scale: tl.tensor, softcap: tl.tensor, PRODUCT: tl.constexpr
) -> tl.tensor:
    """In powers of two. scale: of all, or of each key."""
    b_s = tl.dot(b_q, b_k, input_precision=PRODUCT) * scale
    if softcap is not None:
        b_s = softcap - 2.0 * softcap / (tl.exp2(b_s * (2.0 * LOG2_E / softcap)) + 1.0)
    return b_s * LOG2_E


@triton.jit
def _hidden(
    b_s: tl.tensor, o_c: tl.tensor, o_at: tl.tensor, high: tl.tensor, window: tl.tensor
) -> tl.tensor:
    """Scores, HIDDEN where a query at o_at does not see what is at o_c."""
    if window is None:
        b_s = tl.where(o_c[None, :] <= tl.minimum(o_at, high - 1)[:, None], b_s, HIDDEN)
    else:
        # What lies ahead is a large number once the sign is gone: one comparison for both ends.
        o_back = (o_at[:, None] - o_c[None, :]).to(tl.uint32, bitcast=True)
        b_s = tl.where(o_back < window, b_s, HIDDEN)
        b_s = tl.where((o_c < high)[None, :], b_s, HIDDEN)
    return b_s


@triton.jit
def _load(p_kv: tl.tensor, m_kv: tl.tensor, p_scale: tl.tensor, dtype: tl.constexpr) -> tl.tensor:
    """Keys or values, or their numbers."""
    b_kv = tl.load(p_kv, mask=m_kv, other=0.0)
    if p_scale is not None:
        # Eight bits reach float32 on every target, and from there every type.
        b_kv = b_kv.to(tl.float32)
    return b_kv.to(dtype)


@triton.jit
def _walk(
    b_q: tl.tensor,
    o_at: tl.tensor,
    low: tl.tensor,
    high: tl.tensor,
    p_table: tl.tensor,
    p_k: tl.tensor,
    p_v: tl.tensor,
    p_scale_k: tl.tensor,
    p_scale_v: tl.tensor,
    scale: tl.tensor,
    softcap: tl.tensor,
    window: tl.tensor,
    WIDE: tl.constexpr,
    D: tl.constexpr,
    P: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    PRODUCT: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Of queries at o_at over the positions from low to high: the largest score, and the sums behind it."""
    DTYPE: tl.constexpr = b_q.dtype
    o_d = tl.arange(0, b_q.shape[1])
    m_d = o_d < D
    b_max = tl.full([b_q.shape[0]], HIDDEN, WIDE)
    b_sum = tl.zeros([b_q.shape[0]], WIDE)
    b_out = tl.zeros([b_q.shape[0], b_q.shape[1]], WIDE)
    for i_c in range(low, high, TILE):
        o_c = i_c + tl.arange(0, TILE)
        m_c = o_c < high
        i_block = tl.load(p_table + o_c // P, mask=m_c, other=0).to(tl.int64)
        o_kv = i_block * (P * WIDTH) + o_c % P * D
        m_k = m_d[:, None] & m_c[None, :]
        b_k = _load(p_k + o_kv[None, :] + o_d[:, None], m_k, p_scale_k, DTYPE)
        o_scale = (i_block * (P * WIDTH) + P * D) // 4 + o_c % P
        if p_scale_k is None:
            b_s = _scores(b_q, b_k, scale, softcap, PRODUCT)
        else:
            b_scale = tl.load(p_scale_k + o_scale, mask=m_c, other=0.0)
            b_s = _scores(b_q, b_k, scale * b_scale[None, :], softcap, PRODUCT)
        b_s = _hidden(b_s, o_c, o_at, high, window)
        m_v = m_c[:, None] & m_d[None, :]
        b_v = _load(p_v + o_kv[:, None] + o_d[None, :], m_v, p_scale_v, DTYPE)
        b_new = tl.maximum(b_max, tl.max(b_s, 1))
        b_p, b_old = tl.exp2(b_s - b_new[:, None]), tl.exp2(b_max - b_new)
        b_sum = b_sum * b_old + tl.sum(b_p, 1)
        if p_scale_v is not None:
            b_p *= tl.load(p_scale_v + o_scale, mask=m_c, other=0.0)[None, :]
        b_out = b_out * b_old[:, None] + tl.dot(b_p.to(DTYPE), b_v, input_precision=PRODUCT)
        b_max = b_new
    return b_max, b_sum, b_out


@triton.jit(do_not_specialize=["first", "s_table"])
def attend(
    q: tl.tensor,
    cache: tl.tensor,
    out: tl.tensor,
    mass: tl.tensor,
    tiles: tl.tensor,
    starts: tl.tensor,
    seq_lens: tl.tensor,
    table: tl.tensor,
    scales: tl.tensor,
    first: tl.tensor,
    scale: tl.tensor,
    softcap: tl.tensor,
    window: tl.tensor,
    s_qt: tl.tensor,
    s_qh: tl.tensor,
    s_cache: tl.tensor,
    s_table: tl.tensor,
    GROUP: tl.constexpr,
    D: tl.constexpr,
    P: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_D: tl.constexpr,
    TILE: tl.constexpr,
    PRODUCT: tl.constexpr,
) -> None:
    """Grid (tiles, G, splits). q [T, H, D]; cache [2G, ., P, WIDTH], and scales the same as float32, or
    None where it has none; tiles as `rows_of_tiles` wrote them.

    With one split, out is [T, H, D] and mass None. Else out is [T, H, splits, D] float32, normalised
    within the split, and mass [T, H, splits] float32 the logarithm of what it was divided by.
    """
    BLOCK_Q: tl.constexpr = BLOCK_M // GROUP
    WIDE: tl.constexpr = tl.float64 if q.dtype.element_ty == tl.float64 else tl.float32
    i_tile, i_g, i_split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_row = tl.load(tiles + i_tile)
    if i_row < 0:
        return
    start, length = tl.load(starts + i_row), tl.load(seq_lens + i_row)
    queries = tl.load(starts + i_row + 1) - start
    i_q = (i_tile - base(starts, i_row, first, BLOCK_Q)) * BLOCK_Q

    o_m, o_d = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)
    o_q, o_h = i_q + o_m // GROUP, i_g * GROUP + o_m % GROUP
    m_q = ((o_m // GROUP < BLOCK_Q) & (o_q < queries))[:, None] & (o_d < D)[None, :]
    o_token, before = (start + o_q).to(tl.int64), length - queries
    b_q = tl.load(
        q + o_token[:, None] * s_qt + o_h[:, None] * s_qh + o_d[None, :], mask=m_q, other=0.0
    )
    last = before + tl.minimum(i_q + BLOCK_Q, queries) - 1
    low, high = _span(before + i_q, last, window, i_split, tl.num_programs(2), TILE)

    o_k = i_g.to(tl.int64) * s_cache
    o_v = (tl.num_programs(1) + i_g).to(tl.int64) * s_cache
    p_scale_k, p_scale_v = None, None
    if scales is not None:
        p_scale_k, p_scale_v = scales + o_k // 4, scales + o_v // 4
    p_table = table + i_row.to(tl.int64) * s_table
    b_max, b_sum, b_out = _walk(
        *(b_q, before + o_q, low, high, p_table, cache + o_k, cache + o_v),
        *(p_scale_k, p_scale_v, scale, softcap, window, WIDE, D, P, WIDTH, TILE, PRODUCT),
    )

    # A split behind the row's end has no sum.
    b_out = b_out / tl.where(b_sum > 0, b_sum, 1.0)[:, None]
    o_out = o_token * (tl.num_programs(1) * GROUP) + o_h
    if mass is not None:
        o_out = o_out * tl.num_programs(2) + i_split
        b_mass = tl.where(b_sum > 0, b_max + tl.log2(b_sum), HIDDEN)
        m_m = (o_m // GROUP < BLOCK_Q) & (o_q < queries)
        tl.store(mass + o_out, b_mass.to(mass.dtype.element_ty), mask=m_m)
    p_out = out + o_out[:, None] * D + o_d[None, :]
    tl.store(p_out, b_out.to(out.dtype.element_ty), mask=m_q)


@triton.jit
def merge(
    parts: tl.tensor,
    mass: tl.tensor,
    out: tl.tensor,
    SPLITS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """out [T, H, D] from the splits of each token and head; grid (T, H)."""
    i_out = tl.program_id(0).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
    o_s, o_d = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_D)
    m_s, m_d = o_s < SPLITS, o_d < D
    b_mass = wide(tl.load(mass + i_out * SPLITS + o_s, mask=m_s, other=HIDDEN))
    b_share = tl.where(m_s, tl.exp2(b_mass - tl.max(b_mass, 0)), 0.0)
    p_parts = parts + (i_out * SPLITS + o_s)[:, None] * D + o_d[None, :]
    b_parts = wide(tl.load(p_parts, mask=m_s[:, None] & m_d[None, :], other=0.0))
    b_out = tl.sum(b_parts * b_share[:, None], 0) / tl.sum(b_share, 0)
    tl.store(out + i_out * D + o_d, b_out.to(out.dtype.element_ty), mask=m_d)
