"""The spec of a step's beginning."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.place.types import Placed


def place(
    token_ids: Tensor, slots: Tensor, starts: Tensor, seq_lens: Tensor, table: Tensor, size: int
) -> Placed:
    """The last tokens of each row, as many as its query has. Reads tensors freely: it is for tests.

    token_ids: of every slot, [slots, W] int32, drafts behind the tokens that are known. slots: of each
    row, [R] int64. starts: where queries begin, and the total, [R + 1] int32. seq_lens: tokens in the
    cache after the step, [R] int32. table: blocks of each row, [R, B] int32, of `size` tokens.
    """
    ids, positions, kv_slots = [], [], []
    for row in range(slots.shape[0]):
        query = int(starts[row + 1] - starts[row])
        for i in range(query):
            position = int(seq_lens[row]) - query + i
            ids.append(int(token_ids[slots[row], position]))
            positions.append(position)
            kv_slots.append(int(table[row, position // size]) * size + position % size)
    return Placed(
        torch.tensor(ids, dtype=torch.int32),
        torch.tensor(positions, dtype=torch.int64),
        torch.tensor(kv_slots, dtype=torch.int64),
    )
