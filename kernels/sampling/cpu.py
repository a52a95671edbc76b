"""Sampling of all rows at once. No host reads: what is off is off by parameters, not by values."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.sampling.noise import gumbel
from optimist.kernels.sampling.types import Edits, Penalties, Rows


def greedy(logits: Tensor) -> Tensor:
    """The likeliest token of each row of logits [S, V], the lowest id among equals. [S] int64."""
    return logits.argmax(-1)


def sample(logits: Tensor, rows: Rows) -> Tensor:
    """Choose a token for each row. [S] int64.

    logits: [S, V] float32 or wider, overwritten. Penalties, edits, temperature, then the filters
    top_k, top_p (of what top_k left) and min_p (relative to the likeliest), then noise, then argmax.
    Tokens as likely as the last one that a filter keeps are kept with it.
    """
    if rows.penalties is not None:
        _penalise_(logits, rows.penalties)
    for edits in rows.edits:
        _edit_(logits, edits)
    if rows.temperature is None:
        return greedy(logits)
    warm = (rows.temperature > 0)[:, None]
    heat = torch.where(warm[:, 0], rows.temperature, 1.0).to(logits.dtype)[:, None]
    scores = logits.sub_(logits.amax(-1, keepdim=True)).div_(heat)
    _filter_(scores, rows)
    ids = torch.arange(scores.shape[1], dtype=torch.int32, device=scores.device)
    noise = gumbel(rows.seed, rows.position, ids)
    return scores.add_(torch.where(warm, noise, 0.0)).argmax(-1)


def _penalise_(logits: Tensor, by: Penalties) -> None:
    repetition = torch.where(
        (by.counts > 0) | by.in_prompt, by.repetition[:, None], by.repetition.new_ones(())
    )
    logits.copy_(torch.where(logits > 0, logits / repetition, logits * repetition))
    logits -= by.counts * by.frequency[:, None]
    logits -= (by.counts > 0) * by.presence[:, None]


def _edit_(logits: Tensor, edits: Edits) -> None:
    values = edits.values.to(logits.dtype)
    logits.index_put_((edits.rows, edits.ids), values, accumulate=True)


def _filter_(scores: Tensor, rows: Rows) -> None:
    """Set scores [S, V], of which 0 is each row's largest, to -inf where a filter drops them."""
    floor = None
    if rows.top_k is not None:
        best = scores.topk(min(rows.max_top_k, scores.shape[1]), -1).values
        last = (rows.top_k.long() - 1).clamp(0, best.shape[1] - 1)[:, None]
        floor = torch.where((rows.top_k > 0)[:, None], best.gather(1, last), -torch.inf)
        _drop_(scores, floor)
    if rows.top_p is not None:
        _drop_(scores, _nucleus(scores, rows.top_p[:, None]))
    if rows.min_p is not None:
        _drop_(scores, rows.min_p.log()[:, None])


def _nucleus(scores: Tensor, top_p: Tensor) -> Tensor:
    """The least score among the likeliest tokens that reach a mass of top_p, [S, 1]."""
    ordered = scores.sort(-1, descending=True).values
    mass = torch.softmax(ordered, -1)
    before = mass.cumsum(-1) - mass
    kept = (before < top_p).sum(-1, keepdim=True).clamp_(min=1)
    return torch.where(top_p < 1, ordered.gather(1, kept - 1), -torch.inf)


def _drop_(scores: Tensor, floor: Tensor) -> None:
    scores.masked_fill_(scores < floor, -torch.inf)
