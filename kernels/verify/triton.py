"""Verification on a GPU: a program judges the drafts of a row, and draws the token behind them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from optimist.kernels.sampling.noise import ACCEPT as ACCEPT_BRANCH
from optimist.kernels.sampling.noise import RESIDUAL as RESIDUAL_BRANCH
from optimist.kernels.sampling.triton_noise import branch, gumbel, keys, uniform
from optimist.kernels.sampling.types import NO_TOKEN
from optimist.kernels.triton_common import launch, power_of_2, wide
from optimist.kernels.verify.types import Noise, Places, Verified

BLOCK = 2048
"""tokens of the vocabulary at a time"""

ACCEPT = tl.constexpr(ACCEPT_BRANCH)
NONE = tl.constexpr(NO_TOKEN)
RESIDUAL = tl.constexpr(RESIDUAL_BRANCH)


@triton.jit
def _leading(m_good: tl.tensor, o_k: tl.tensor, count: tl.tensor) -> tl.tensor:
    """How many of the first `count` are good, up to the first that is not."""
    return tl.min(tl.where(m_good & (o_k < count), count, o_k), 0).to(tl.int32)


@triton.jit(do_not_specialize=["s_grid"])
def _compare(
    draws: tl.tensor,
    drafts: tl.tensor,
    grid: tl.tensor,
    counts: tl.tensor,
    accepted: tl.tensor,
    s_grid: tl.tensor,
    BLOCK_K: tl.constexpr,
) -> None:
    """accepted [S] int64, grid (S,)."""
    i_s, o_k = tl.program_id(0), tl.arange(0, BLOCK_K)
    count = tl.load(counts + i_s)
    o_j = tl.load(grid + i_s * s_grid) + o_k
    b_draw = tl.load(draws + o_j, mask=o_k < count, other=-1)
    b_draft = tl.load(drafts + o_j, mask=o_k < count, other=-2)
    tl.store(accepted + i_s, _leading(b_draw == b_draft, o_k, count).to(tl.int64))


@triton.jit
def _left(
    p_target: tl.tensor,
    p_proposal: tl.tensor,
    o_v: tl.tensor,
    V: tl.tensor,
    weight: tl.tensor,
    draft: tl.tensor,
) -> tl.tensor:
    """max(weight * p - q, 0); q is 0 where there is no draft, and 1 on a draft that is certain."""
    m_v = o_v < V
    b_left = wide(tl.load(p_target + o_v, mask=m_v, other=0.0)) * weight
    if draft >= 0:
        if p_proposal is None:
            b_left = tl.where(o_v == draft, 0.0, b_left)
        else:
            b_left -= wide(tl.load(p_proposal + o_v, mask=m_v, other=0.0))
    return tl.maximum(b_left, 0.0)


@triton.jit
def _total(
    p_target: tl.tensor,
    p_proposal: tl.tensor,
    V: tl.tensor,
    weight: tl.tensor,
    draft: tl.tensor,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    b_sum = tl.zeros([BLOCK], weight.dtype)
    for i_v in range(0, V, BLOCK):
        o_v = i_v + tl.arange(0, BLOCK)
        b_sum += _left(p_target, p_proposal, o_v, V, weight, draft)
    return tl.sum(b_sum, 0)


@triton.jit
def _draw(
    p_target: tl.tensor,
    p_proposal: tl.tensor,
    V: tl.tensor,
    weight: tl.tensor,
    draft: tl.tensor,
    seed: tl.tensor,
    position: tl.tensor,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """A token from what is left; from the target itself where rounding leaves nothing."""
    if _total(p_target, p_proposal, V, weight, draft, BLOCK) <= 0:
        draft, weight = draft * 0 - 1, weight * 0 + 1
    first, second = keys(seed, position)
    b_best = tl.full([BLOCK], float("-inf"), weight.dtype)
    b_at = tl.zeros([BLOCK], tl.int32)
    for i_v in range(0, V, BLOCK):
        o_v = i_v + tl.arange(0, BLOCK)
        b_left = _left(p_target, p_proposal, o_v, V, weight, draft)
        b_score = tl.log(b_left) + gumbel(first, second, o_v)
        b_score = tl.where(b_left > 0, b_score, float("-inf"))
        m_better = b_score > b_best
        b_best, b_at = tl.where(m_better, b_score, b_best), tl.where(m_better, o_v, b_at)
    best = tl.max(b_best, 0)
    at = tl.min(tl.where(b_best == best, b_at, V), 0)
    return tl.where(best > float("-inf"), at, NONE)


@triton.jit(do_not_specialize=["s_grid"])
def _judge(
    target: tl.tensor,
    proposal: tl.tensor,
    drafts: tl.tensor,
    grid: tl.tensor,
    counts: tl.tensor,
    seeds: tl.tensor,
    positions: tl.tensor,
    ids: tl.tensor,
    accepted: tl.tensor,
    s_grid: tl.tensor,
    V: tl.tensor,
    TOGETHER: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Drafts of a row one after the other, alone or TOGETHER, and the token behind them; grid (S,)."""
    WIDE: tl.constexpr = tl.float64 if target.dtype.element_ty == tl.float64 else tl.float32
    i_s = tl.program_id(0)
    count, first = tl.load(counts + i_s), tl.load(grid + i_s * s_grid)
    seed, begin = tl.load(seeds + first), tl.load(positions + first)
    judge, kept, going = branch(seed, begin, ACCEPT), count * 0, count >= 0
    weight = tl.full([], 1.0, WIDE)
    found = weight
    for i_k in range(count):
        draft = tl.load(drafts + first + i_k)
        at = (first + i_k) * V + draft
        p, q = wide(tl.load(target + at)), tl.full([], 1.0, WIDE)
        if proposal is not None:
            q = wide(tl.load(proposal + at))
        number = uniform(judge, begin + i_k)
        if TOGETHER:
            # What is not a number is not accepted.
            ratio = weight * (p / q)
            weight = tl.where(ratio > 0, tl.minimum(ratio, 1.0), 0.0)
            after = (first + i_k + 1) * V
            p_after = proposal + after if proposal is not None else None
            following = tl.load(drafts + first + i_k + 1)
            rest = _total(target + after, p_after, V, weight, following, BLOCK)
            # Where nothing is left and nothing is lost, p is q: the next draft is accepted for sure.
            share = tl.where(rest + 1 - weight > 0, rest / (rest + 1 - weight), 1.0)
            good = number < tl.where(i_k + 1 == count, weight, share)
            kept, found = tl.where(good, i_k + 1, kept), tl.where(good, weight, found)
        else:
            going = going & (number * q < p)
            kept += going.to(kept.dtype)
    at = (first + kept) * V
    other = branch(seed, begin, RESIDUAL)
    p_at = proposal + at if proposal is not None else None
    token = _draw(
        target + at,
        p_at,
        V,
        found,
        tl.load(drafts + first + kept),
        tl.where(kept == count, seed, other),
        begin + kept,
        BLOCK,
    )
    for i_k in range(count + 1):
        draft = tl.maximum(tl.load(drafts + first + i_k), 0)
        tl.store(ids + first + i_k, tl.where(i_k == kept, token, draft))
    tl.store(accepted + i_s, kept)


def compare(draws: Tensor, places: Places) -> Verified:
    """Accept drafts up to the first that differs from its draw. draws: of each place, [J] int64."""
    accepted = torch.empty_like(places.counts)
    launch(
        _compare,
        (places.counts.shape[0],),
        *(draws, places.drafts, places.grid, places.counts, accepted, places.grid.stride(0)),
        BLOCK_K=power_of_2(places.most + 1),
        num_warps=1,
    )
    return Verified(draws, accepted)


def reject(target: Tensor, proposal: Tensor | None, places: Places, noise: Noise) -> Verified:
    """Judge each draft alone, as `rejection.reject`."""
    return _judged(target, proposal, places, noise, together=False)


def block(target: Tensor, proposal: Tensor | None, places: Places, noise: Noise) -> Verified:
    """Judge the drafts of a row together, as `rejection.block`."""
    return _judged(target, proposal, places, noise, together=True)


def _judged(
    target: Tensor, proposal: Tensor | None, places: Places, noise: Noise, *, together: bool
) -> Verified:
    ids, accepted = torch.empty_like(places.drafts), torch.empty_like(places.counts)
    launch(
        _judge,
        (places.counts.shape[0],),
        *(target.contiguous(), None if proposal is None else proposal.contiguous()),
        *(places.drafts, places.grid, places.counts, noise.seed, noise.position, ids, accepted),
        *(places.grid.stride(0), target.shape[1]),
        TOGETHER=together,
        BLOCK=BLOCK,
        num_warps=4,
    )
    return Verified(ids, accepted)
