"""Log-probabilities without sorting the vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.logprobs.types import Report


def logprobs(logits: Tensor, ids: Tensor, alternatives: int) -> Report:
    """As the reference, except which of several equals at the border of the alternatives is named."""
    total = logits.logsumexp(-1, keepdim=True)
    chosen = logits.gather(1, ids[:, None])
    tokens = torch.arange(logits.shape[1], device=logits.device)
    ahead = (logits > chosen) | ((logits == chosen) & (tokens < ids[:, None]))
    values, top = logits.topk(min(alternatives, logits.shape[1]), -1)
    top, by_id = top.sort(-1)
    values, by_value = values.gather(1, by_id).sort(dim=-1, descending=True, stable=True)
    return Report((chosen - total)[:, 0], ahead.sum(-1), values - total, top.gather(1, by_value))
