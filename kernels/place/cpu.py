"""A step's beginning as a handful of gathers."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.place.types import Placed


def place(
    token_ids: Tensor,
    slots: Tensor,
    starts: Tensor,
    seq_lens: Tensor,
    table: Tensor,
    size: int,
    *,
    row: Tensor,
) -> Placed:
    """As the reference. row: the row of each token, [T] int64, which the host knows."""
    first = starts[1:] - seq_lens
    positions = torch.arange(row.shape[0], device=row.device) - first.index_select(0, row)
    at = slots.index_select(0, row).mul_(token_ids.shape[1]).add_(positions)
    ids = token_ids.view(-1).index_select(0, at)
    block = row * table.shape[1] + positions // size
    kv_slots = table.reshape(-1).index_select(0, block) * size + positions % size
    return Placed(ids, positions, kv_slots)
