"""Sampling on the device: a program chooses for a row, and finds borders without sorting.

A score is what a logit lies below the row's largest, over the temperature. Its depth is that distance
as a float32, whose bits order as integers do; a filter keeps what is no deeper than its border.
"""

from __future__ import annotations

import triton
import triton.language as tl

from optimist.kernels.sampling.triton_noise import gumbel, keys
from optimist.kernels.sampling.types import NO_TOKEN
from optimist.kernels.triton_common import wide

NONE = tl.constexpr(NO_TOKEN)

EVERYTHING = tl.constexpr(0xFFFFFFFF)
"""a border that nothing is deeper than"""


@triton.jit
def penalise(
    logits: tl.tensor,
    counts: tl.tensor,
    in_prompt: tl.tensor,
    presence: tl.tensor,
    frequency: tl.tensor,
    repetition: tl.tensor,
    V: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """Penalties of the rows, in place; grid (S, V / BLOCK)."""
    i_s = tl.program_id(0).to(tl.int64)
    o_v = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m_v = o_v < V
    o_l = i_s * V + o_v
    b_l = wide(tl.load(logits + o_l, mask=m_v, other=0.0))
    b_count = tl.load(counts + o_l, mask=m_v, other=0)
    m_known = (b_count > 0) | (tl.load(in_prompt + o_l, mask=m_v, other=0) != 0)
    factor = tl.load(repetition + i_s)
    b_l = tl.where(m_known, tl.where(b_l > 0, b_l / factor, b_l * factor), b_l)
    b_l -= b_count.to(tl.float32) * tl.load(frequency + i_s)
    b_l -= (b_count > 0).to(tl.float32) * tl.load(presence + i_s)
    tl.store(logits + o_l, b_l.to(logits.dtype.element_ty), mask=m_v)


@triton.jit(do_not_specialize=["N"])
def edit(
    logits: tl.tensor,
    rows: tl.tensor,
    ids: tl.tensor,
    values: tl.tensor,
    V: tl.tensor,
    N: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """logits[rows, ids] += values, grid (N / BLOCK,)."""
    o_n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m_n = o_n < N
    o_l = tl.load(rows + o_n, mask=m_n, other=0) * V + tl.load(ids + o_n, mask=m_n, other=0)
    b_value = tl.load(values + o_n, mask=m_n, other=0.0).to(logits.dtype.element_ty)
    tl.atomic_add(logits + o_l, b_value, mask=m_n)


@triton.jit
def _peak(p_l: tl.tensor, V: tl.tensor, BLOCK: tl.constexpr) -> tl.tensor:
    """The largest logit of a row, infinity where one of them is not a number."""
    WIDE: tl.constexpr = tl.float64 if p_l.dtype.element_ty == tl.float64 else tl.float32
    b_max = tl.full([BLOCK], float("-inf"), WIDE)
    for i_v in range(0, V, BLOCK):
        o_v = i_v + tl.arange(0, BLOCK)
        b_l = wide(tl.load(p_l + o_v, mask=o_v < V, other=float("-inf")))
        b_max = tl.maximum(b_max, tl.where(b_l <= float("inf"), b_l, float("inf")))
    return tl.max(b_max, 0)


@triton.jit
def _finite(peak: tl.tensor) -> tl.tensor:
    """Whether there is a likeliest token."""
    return (peak > float("-inf")) & (peak < float("inf"))


@triton.jit
def _scores(
    p_l: tl.tensor, o_v: tl.tensor, V: tl.tensor, peak: tl.tensor, heat: tl.tensor
) -> tl.tensor:
    return (wide(tl.load(p_l + o_v, mask=o_v < V, other=float("-inf"))) - peak) / heat


@triton.jit
def _depth(b_score: tl.tensor) -> tl.tensor:
    return tl.abs(b_score).to(tl.float32).to(tl.uint32, bitcast=True)


@triton.jit
def _weights(b_score: tl.tensor, COUNTED: tl.constexpr) -> tl.tensor:
    """What a token adds to what lies above a border: 1, or its mass."""
    if COUNTED:
        return (b_score > float("-inf")).to(tl.float32)
    return tl.exp(b_score.to(tl.float32))


@triton.jit
def _border(
    p_l: tl.tensor,
    V: tl.tensor,
    peak: tl.tensor,
    heat: tl.tensor,
    limit: tl.tensor,
    COUNTED: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """The deepest depth above which less than `limit` lies, two binary digits at a time."""
    border = tl.zeros([], tl.uint32)
    for i_digit in range(16):
        unit = tl.full([], 1, tl.uint32) << (30 - 2 * i_digit)
        b_first = tl.zeros([BLOCK], tl.float32)
        b_second = tl.zeros([BLOCK], tl.float32)
        b_third = tl.zeros([BLOCK], tl.float32)
        for i_v in range(0, V, BLOCK):
            b_score = _scores(p_l, i_v + tl.arange(0, BLOCK), V, peak, heat)
            b_depth, b_weight = _depth(b_score), _weights(b_score, COUNTED)
            b_first += tl.where(b_depth < border + unit, b_weight, 0.0)
            b_second += tl.where(b_depth < border + 2 * unit, b_weight, 0.0)
            b_third += tl.where(b_depth < border + 3 * unit, b_weight, 0.0)
        below = (tl.sum(b_first, 0) < limit).to(tl.uint32)
        below += (tl.sum(b_second, 0) < limit).to(tl.uint32)
        below += (tl.sum(b_third, 0) < limit).to(tl.uint32)
        border += below * unit
    return border


@triton.jit
def _mass(
    p_l: tl.tensor,
    V: tl.tensor,
    peak: tl.tensor,
    heat: tl.tensor,
    border: tl.tensor,
    floor: tl.tensor,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """The mass of what is kept; the likeliest token has 1."""
    b_mass = tl.zeros([BLOCK], peak.dtype)
    for i_v in range(0, V, BLOCK):
        b_score = _scores(p_l, i_v + tl.arange(0, BLOCK), V, peak, heat)
        m_kept = (_depth(b_score) <= border) & (b_score >= floor)
        b_mass += tl.where(m_kept, tl.exp(b_score), 0.0)
    return tl.sum(b_mass, 0)


@triton.jit
def _kept(
    p_l: tl.tensor,
    V: tl.tensor,
    peak: tl.tensor,
    heat: tl.tensor,
    p_top_k: tl.tensor,
    p_top_p: tl.tensor,
    p_min_p: tl.tensor,
    BLOCK: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Which scores the filters keep: those no deeper than the border, and not below the floor."""
    border = tl.full([], EVERYTHING, tl.uint32)
    floor = tl.full([], float("-inf"), tl.float32)
    if p_top_k is not None:
        top_k = tl.load(p_top_k)
        if (top_k > 0) & (top_k < V):
            border = _border(p_l, V, peak, heat, top_k.to(tl.float32), True, BLOCK)
    if p_top_p is not None:
        top_p = tl.load(p_top_p)
        if top_p < 1:
            limit = top_p * _mass(p_l, V, peak, heat, border, floor, BLOCK).to(tl.float32)
            border = tl.minimum(border, _border(p_l, V, peak, heat, limit, False, BLOCK))
    if p_min_p is not None:
        floor = tl.log(tl.load(p_min_p))
    return border, floor


@triton.jit
def choose(
    logits: tl.tensor,
    out: tl.tensor,
    temperature: tl.tensor,
    seed: tl.tensor,
    position: tl.tensor,
    top_k: tl.tensor,
    top_p: tl.tensor,
    min_p: tl.tensor,
    V: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """out [S] int64: argmax of kept scores plus noise; of logits where temperature is None or 0. Grid (S,)."""
    i_s = tl.program_id(0).to(tl.int64)
    p_l = logits + i_s * V
    peak, heat, warm = _peak(p_l, V, BLOCK), 1.0, False
    border, floor = tl.full([], EVERYTHING, tl.uint32), tl.full([], float("-inf"), tl.float32)
    first, second = border, border
    if temperature is not None:
        heat = tl.load(temperature + i_s)
        warm = heat > 0
        heat = tl.where(warm, heat, 1.0)
        p_k = top_k + i_s if top_k is not None else None
        p_p = top_p + i_s if top_p is not None else None
        p_m = min_p + i_s if min_p is not None else None
        if warm:
            border, floor = _kept(p_l, V, peak, heat, p_k, p_p, p_m, BLOCK)
            first, second = keys(tl.load(seed + i_s), tl.load(position + i_s))
    b_best = tl.full([BLOCK], float("-inf"), peak.dtype)
    b_at = tl.zeros([BLOCK], tl.int32)
    for i_v in range(0, V, BLOCK):
        o_v = i_v + tl.arange(0, BLOCK)
        b_score = _scores(p_l, o_v, V, peak, heat)
        if temperature is not None:
            m_kept = (_depth(b_score) <= border) & (b_score >= floor)
            b_noise = tl.where(warm, gumbel(first, second, o_v), 0.0)
            b_score = tl.where(m_kept, b_score + b_noise, float("-inf"))
        m_better = b_score > b_best
        b_best, b_at = tl.where(m_better, b_score, b_best), tl.where(m_better, o_v, b_at)
    # Of equals the lowest id: within a position of the block the first was kept.
    best = tl.max(b_best, 0)
    at = tl.min(tl.where(b_best == best, b_at, V), 0)
    tl.store(out + i_s, tl.where(_finite(peak), at, NONE).to(tl.int64))


@triton.jit
def spread(
    logits: tl.tensor,
    out: tl.tensor,
    likeliest: tl.tensor,
    temperature: tl.tensor,
    top_k: tl.tensor,
    top_p: tl.tensor,
    min_p: tl.tensor,
    V: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """out [S, V]: the probabilities that `choose` chooses by, grid (S,). likeliest: ids, [S] int64."""
    i_s = tl.program_id(0).to(tl.int64)
    p_l = logits + i_s * V
    peak, heat = _peak(p_l, V, BLOCK), tl.load(temperature + i_s)
    if heat > 0:
        p_k = top_k + i_s if top_k is not None else None
        p_p = top_p + i_s if top_p is not None else None
        p_m = min_p + i_s if min_p is not None else None
        border, floor = _kept(p_l, V, peak, heat, p_k, p_p, p_m, BLOCK)
        mass = _mass(p_l, V, peak, heat, border, floor, BLOCK)
        for i_v in range(0, V, BLOCK):
            o_v = i_v + tl.arange(0, BLOCK)
            b_score = _scores(p_l, o_v, V, peak, heat)
            m_kept = (_depth(b_score) <= border) & (b_score >= floor)
            b_out = tl.where(m_kept, tl.exp(b_score) / mass, 0.0)
            b_out = tl.where(_finite(peak), b_out, float("nan"))
            tl.store(out + i_s * V + o_v, b_out.to(out.dtype.element_ty), mask=o_v < V)
    else:
        at = tl.load(likeliest + i_s)
        for i_v in range(0, V, BLOCK):
            o_v = i_v + tl.arange(0, BLOCK)
            b_out = tl.where(at < 0, float("nan"), (o_v == at).to(out.dtype.element_ty))
            tl.store(out + i_s * V + o_v, b_out, mask=o_v < V)
