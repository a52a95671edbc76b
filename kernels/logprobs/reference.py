"""The spec of reported log-probabilities."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.logprobs.types import Report


def logprobs(logits: Tensor, ids: Tensor, alternatives: int) -> Report:
    """Of tokens ids [S] under logits [S, V] float32 or wider, before anything was applied to them."""
    values = torch.log_softmax(logits, -1)
    order = logits.argsort(dim=-1, descending=True, stable=True)
    ranks = (order == ids[:, None]).long().argmax(-1)
    top = order[:, :alternatives]
    return Report(values.gather(1, ids[:, None])[:, 0], ranks, values.gather(1, top), top)
