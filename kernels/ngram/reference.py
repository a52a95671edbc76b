"""The spec of looking up the last tokens."""

from __future__ import annotations

import torch
from torch import Tensor


def ngram(
    token_ids: Tensor, slots: Tensor, lengths: Tensor, count: int, *, shortest: int, longest: int
) -> Tensor:
    """Drafts of each row, [R, count] int32; -1 throughout where the last tokens did not occur before.

    token_ids: of every slot, [slots, W] int32. slots: of each row, [R] int64. lengths: tokens that are
    known, [R] int32. Between `shortest` and `longest` of the last tokens match, as many as can; of equally
    long matches the rightmost counts. It may overlap the last tokens: the text then goes on with the
    drafts themselves. Reads tensors freely.
    """
    drafts = torch.full((slots.shape[0], count), -1, dtype=torch.int32)
    for row, (slot, length) in enumerate(zip(slots.tolist(), lengths.tolist(), strict=True)):
        tokens = token_ids[slot, :length].tolist()
        for size in range(min(longest, length - 1), shortest - 1, -1):
            ends = [e for e in range(size, length) if tokens[e - size : e] == tokens[-size:]]
            if ends:
                period = length - ends[-1]
                drafts[row] = torch.tensor([tokens[ends[-1] + i % period] for i in range(count)])
                break
    return drafts
