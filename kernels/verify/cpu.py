"""Sample and compare: a draft is accepted while it is what the target would have drawn anyway."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.verify.types import Places, Verified


def compare(draws: Tensor, places: Places) -> Verified:
    """Accept drafts up to the first that differs from its draw, which is the bonus token.

    draws: the target's token at each place, [J] int64, drawn with noise that depends on request and
    position alone. So the tokens do not depend on the drafts: only how many of them there are.
    """
    return Verified(draws, leading(draws == places.drafts, places))


def leading(good: Tensor, places: Places) -> Tensor:
    """How many drafts of each row are good, up to the first that is not, [S] int64. good: [J] bool.

    It is False at the last place of a row, which has no draft.
    """
    if not places.most:
        return torch.zeros_like(places.counts)
    good = good.index_select(0, places.grid.view(-1)).view(places.grid.shape)
    return good[:, :-1].to(torch.int64).cumprod_(1).sum(1)
