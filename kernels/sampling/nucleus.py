"""top_p without sorting: the border is found digit by digit, from masses summed by digit."""

from __future__ import annotations

import torch
from torch import Tensor

_DIGITS = ((21, 10), (11, 10), (0, 11))
"""(shift, bits) of a non-negative float32 seen as an integer, the highest first"""

_SORTED = 256
"""up to so many tokens sorting is faster than counting digits"""


def keep_nucleus_(scores: Tensor, top_p: Tensor) -> None:
    """Set scores [S, V], of which 0 is each row's largest, to -inf outside the nucleus.

    The nucleus: the likeliest tokens, as few as reach a mass of top_p [S, 1], and all that are as likely
    as the last of them; everything where top_p is 1. Scores are compared in float32.
    """
    narrow = scores.to(torch.float32)
    if scores.shape[1] <= _SORTED:
        _keep_sorted_(scores, narrow, top_p)
        return
    mass = torch.softmax(narrow, -1)
    depth = narrow.abs().view(torch.int32)
    border = torch.zeros_like(top_p, dtype=torch.int32)
    before = torch.zeros_like(top_p)
    for shift, bits in _DIGITS:
        inside = torch.where(depth >> shift + bits == border, mass, 0.0)
        digit = (depth >> shift).bitwise_and_((1 << bits) - 1)
        masses = torch.zeros(len(scores), 1 << bits, device=scores.device)
        masses.scatter_add_(1, digit.long(), inside)
        reached = masses.cumsum(-1).add_(before)
        at = (reached < top_p).sum(-1, keepdim=True).clamp_(max=(1 << bits) - 1)
        before = torch.where(at > 0, reached.gather(1, (at - 1).clamp_(min=0)), before)
        border = (border << bits) + at.to(torch.int32)
    scores.masked_fill_((depth > border) & (top_p < 1), -torch.inf)


def _keep_sorted_(scores: Tensor, narrow: Tensor, top_p: Tensor) -> None:
    ordered = narrow.sort(-1, descending=True).values
    mass = torch.softmax(ordered, -1)
    kept = (mass.cumsum(-1) - mass < top_p).sum(-1, keepdim=True).clamp_(min=1)
    border = torch.where(top_p < 1, ordered.gather(1, kept - 1), -torch.inf)
    scores.masked_fill_(narrow < border, -torch.inf)
