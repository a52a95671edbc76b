"""Sampling of all rows at once. No host reads: what is off is off by parameters, not by values."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.sampling.noise import gumbel
from optimist.kernels.sampling.nucleus import keep_nucleus_
from optimist.kernels.sampling.types import NO_TOKEN, Edits, Penalties, Rows

AT_ONCE = 1 << 18
"""scores that stay in a core's cache, with their noise, from one operator to the next"""


def greedy(logits: Tensor) -> Tensor:
    """The likeliest token of each row of logits [S, V], the lowest id among equals. [S] int64.

    NO_TOKEN where one of them is not a number, or the largest is not finite.
    """
    return named(logits, logits.argmax(-1))


def named(scores: Tensor, ids: Tensor) -> Tensor:
    """The ids [S] of each row's largest score, NO_TOKEN where that is not a finite number. scores: [S, V]."""
    return ids.where(scores.gather(1, ids[:, None])[:, 0].isfinite(), NO_TOKEN)


def sample(logits: Tensor, rows: Rows) -> Tensor:
    """Choose a token for each row. [S] int64.

    logits: [S, V] float32 or wider, overwritten. Penalties, edits, temperature, then the filters
    top_k, top_p (of what top_k left) and min_p (relative to the likeliest), then noise, then argmax.
    Tokens as likely as the last one that a filter keeps are kept with it. NO_TOKEN: see `greedy`.
    """
    _adjust_(logits, rows)
    if rows.temperature is None or not logits.shape[0]:
        return greedy(logits)
    ids = torch.arange(logits.shape[1], dtype=torch.int32, device=logits.device)
    return torch.cat([_draw(logits, rows, part, ids) for part in _parts(logits)])


def distribution(logits: Tensor, rows: Rows) -> Tensor:
    """The probabilities that `sample` chooses by, [S, V] in logits' dtype; logits are overwritten.

    Of a greedy row all of it lies on one token. NaN where there is NO_TOKEN.
    """
    _adjust_(logits, rows)
    ids = greedy(logits)[:, None]
    best = torch.zeros_like(logits).scatter_(1, ids.clamp(min=0), 1.0)
    best = torch.where(ids < 0, torch.nan, best)
    if rows.temperature is None or not logits.shape[0]:
        return best
    spread = torch.cat([_scores_(logits, rows, part).softmax(-1) for part in _parts(logits)])
    return torch.where((rows.temperature > 0)[:, None], spread, best)


def _parts(logits: Tensor) -> list[slice]:
    """Rows in parts of AT_ONCE scores, or a little less."""
    step = max(1, AT_ONCE // max(logits.shape[1], 1024))
    return [slice(i, i + step) for i in range(0, logits.shape[0], step)]


def _draw(logits: Tensor, rows: Rows, part: slice, ids: Tensor) -> Tensor:
    assert rows.temperature is not None
    scores = _scores_(logits, rows, part)
    noise = gumbel(rows.seed[part], rows.position[part], ids)
    scores.add_(noise.mul_(rows.temperature[part, None] > 0))
    return named(scores, scores.argmax(-1))


def _adjust_(logits: Tensor, rows: Rows) -> None:
    if rows.penalties is not None:
        for part in _parts(logits):
            _penalise_(logits[part], Penalties(*(column[part] for column in rows.penalties)))
    for edits in rows.edits:
        _edit_(logits, edits)


def _scores_(logits: Tensor, rows: Rows, part: slice) -> Tensor:
    """What is left to choose among in a part of the rows, in the place of their logits.

    Of each row the largest is 0, and -inf is what the filters dropped.
    """
    assert rows.temperature is not None
    scores, heat = logits[part], rows.temperature[part, None].to(logits.dtype)
    scores.sub_(scores.amax(-1, keepdim=True)).div_(torch.where(heat > 0, heat, 1.0))
    if rows.top_k is not None:
        _drop_(scores, _kth(scores, rows.top_k[part, None], rows.max_top_k))
    if rows.top_p is not None:
        keep_nucleus_(scores, rows.top_p[part, None])
    if rows.min_p is not None:
        _drop_(scores, rows.min_p[part, None].log())
    return scores


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


def _kth(scores: Tensor, top_k: Tensor, largest: int) -> Tensor:
    """The top_k-th best score of each row, -inf where top_k is 0. [S, 1]"""
    best = scores.topk(min(largest, scores.shape[1]), -1).values
    last = best.gather(1, (top_k.long() - 1).clamp_(0, best.shape[1] - 1))
    return torch.where(top_k > 0, last, -torch.inf)


def _drop_(scores: Tensor, floor: Tensor) -> None:
    scores.masked_fill_(scores < floor, -torch.inf)
