"""A step's end in two writes."""

from __future__ import annotations

import torch
from torch import Tensor


def advance(
    computed: Tensor,
    token_ids: Tensor,
    slots: Tensor,
    queries: Tensor,
    rejected: Tensor,
    at: Tensor,
    positions: Tensor,
    ids: Tensor,
) -> None:
    """As the reference."""
    computed.index_add_(0, slots, queries - rejected)
    flat = at * token_ids.shape[1] + positions
    token_ids.view(-1).index_copy_(0, flat, ids.clamp(min=0).to(torch.int32))
