"""Rejection sampling: drafts are judged by their probabilities, not by what would have been drawn.

Each use of noise has a branch of its own, keyed by where the row's round begins: the choice that
replaces a draft must not know what the draft was drawn with, nor what judged it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.sampling import ACCEPT, RESIDUAL, branch, gumbel, uniform
from optimist.kernels.sampling.cpu import named
from optimist.kernels.verify.cpu import leading
from optimist.kernels.verify.types import Noise, Places, Verified


def reject(target: Tensor, proposal: Tensor | None, places: Places, noise: Noise) -> Verified:
    """Accept each draft with probability min(1, p / q), replace the first that is not from max(p - q, 0).

    target: p, the target's distribution at each place, [J, V] float32 or wider. proposal: q, which
    the draft of each place was drawn from, [J, V], anything at the last place of a row; None: drafts are
    certain, q is 1 on each. Every token of the result has the target's distribution given those before it.
    """
    p, q = _of_drafts(target, proposal, places)
    good = (_judge(noise, places) * q < p) & (places.drafts >= 0)
    accepted = leading(good, places)
    whole = torch.ones_like(target[: len(accepted), 0])
    return _close(target, proposal, places, noise, accepted, whole)


def block(target: Tensor, proposal: Tensor | None, places: Places, noise: Noise) -> Verified:
    """Judge the drafts of a row together: at least as many are accepted on average, and as faithfully.

    With w_0 = 1 and w_i = min(1, w_{i-1} p(x_i) / q(x_i)), i drafts are accepted, i the largest for
    which a number of its own in (0, 1) is below h_i: that is w_i behind all drafts, and before
    R / (R + 1 - w_i), R the sum of max(w_i p - q, 0) at the next draft. What follows is drawn from
    max(w_i p - q, 0). Arguments as in `reject`.
    """
    weights, accepted = _together(target, proposal, places, noise)
    weight = weights.gather(1, accepted[:, None])[:, 0]
    return _close(target, proposal, places, noise, accepted, weight)


def _of_drafts(target: Tensor, proposal: Tensor | None, places: Places) -> tuple[Tensor, Tensor]:
    """p and q of each place's draft, [J] each."""
    drafts = places.drafts.clamp(min=0)[:, None]
    p = target.gather(1, drafts)[:, 0]
    return p, torch.ones_like(p) if proposal is None else proposal.gather(1, drafts)[:, 0]


def _judge(noise: Noise, places: Places) -> Tensor:
    """A number in (0, 1) for each place, [J] float64."""
    return uniform(branch(noise.seed, _round(noise, places), ACCEPT), noise.position)


def _round(noise: Noise, places: Places) -> Tensor:
    """Where the row of each place begins, [J] int64: no two rounds of a request begin alike."""
    return noise.position.index_select(0, places.grid[:, 0]).index_select(0, places.row)


def _together(
    target: Tensor, proposal: Tensor | None, places: Places, noise: Noise
) -> tuple[Tensor, Tensor]:
    """The weight behind each draft, [S, most + 1], and how many drafts are accepted, [S] int64."""
    p, q = _of_drafts(target, proposal, places)
    ratio, judge = p / q, _judge(noise, places)
    weight = torch.ones_like(p.index_select(0, places.grid[:, 0]))
    weights, accepted = [weight], torch.zeros_like(places.counts)
    for i in range(1, places.most + 1):
        before, here = places.grid[:, i - 1], places.grid[:, i]
        weight = weight * ratio.index_select(0, before)
        # What is not a number is not accepted.
        weight = torch.where(weight > 0, weight.clamp(max=1.0), 0.0)
        weights.append(weight)
        rest = _residual(target, proposal, places, here, weight).sum(1)
        share = rest / (rest + 1 - weight)
        # Where nothing is left and nothing is lost, p is q, and the next draft is accepted for sure.
        share = torch.where(rest + 1 - weight > 0, share, 1.0)
        share = torch.where(places.counts == i, weight, share)
        good = (judge.index_select(0, before) < share) & (places.counts >= i)
        accepted = torch.where(good, i, accepted)
    return torch.stack(weights, 1), accepted


def _residual(
    target: Tensor, proposal: Tensor | None, places: Places, at: Tensor, weight: Tensor
) -> Tensor:
    """max(weight * p - q, 0) at one place of each row, [S, V]; q is 0 where there is no draft."""
    p = target.index_select(0, at) * weight[:, None]
    drafts = places.drafts.index_select(0, at)[:, None]
    if proposal is None:
        lost = torch.zeros_like(p).scatter_(1, drafts.clamp(min=0), 1.0)
    else:
        lost = proposal.index_select(0, at)
    left = torch.where(drafts < 0, p, p - lost)
    # Of what is not a number nothing is left.
    return torch.where(left > 0, left, 0.0)


def _close(
    target: Tensor,
    proposal: Tensor | None,
    places: Places,
    noise: Noise,
    accepted: Tensor,
    weight: Tensor,
) -> Verified:
    """Draw the token behind the accepted drafts. A row without drafts draws as it would without any."""
    at = places.grid.gather(1, accepted[:, None])[:, 0]
    left = _residual(target, proposal, places, at, weight)
    # Rounding can leave nothing of a distribution that is the proposal's own.
    left = torch.where(left.sum(1, keepdim=True) > 0, left, target.index_select(0, at))
    bonus = accepted == places.counts
    other = branch(noise.seed, _round(noise, places), RESIDUAL).index_select(0, at)
    seed = torch.where(bonus, noise.seed.index_select(0, at), other)
    tokens = torch.arange(left.shape[1], dtype=torch.int32, device=left.device)
    scores = left.log() + gumbel(seed, noise.position.index_select(0, at), tokens)
    drafts = places.drafts.clamp(min=0)
    return Verified(drafts.index_copy(0, at, named(scores, scores.argmax(-1))), accepted)
