"""The spec of attention over the paged cache."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.card import wide
from optimist.kernels.kv_cache import narrow, scaled
from optimist.kernels.metadata import Metadata


def paged_attention(
    q: Tensor,
    cache: Tensor,
    metadata: Metadata,
    *,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
) -> Tensor:
    """Causal attention of every token to its row's context, [T, H, D] in q's dtype.

    q: [T, H, D], decode rows and prefill chunks one behind the other. cache: of one layer,
    [2G, blocks + 2, P, D], this step's keys and values in it. window: a token sees itself and the
    `window - 1` tokens before it. softcap: scores s become softcap * tanh(s / softcap). A cache of eight
    bits has scales, see kv_cache.
    Padding tokens, which no row claims, get zeros.
    """
    tokens, heads = q.shape[:2]
    groups, size = cache.shape[0] // 2, cache.shape[2]
    dtype = wide(q.dtype)
    buffer = torch.empty(tokens, dtype=torch.int32, device=q.device)
    row = metadata.token_to_req_indices(buffer).long()
    at = torch.arange(tokens, device=q.device)
    real = at < metadata.query_start_loc[-1]
    position = metadata.compute_num_computed_tokens()[row] + at - metadata.query_start_loc[row]
    key_at = torch.arange(metadata.block_table.shape[1] * size, device=q.device)
    seen = (key_at <= position[:, None]) & real[:, None]
    if window is not None:
        seen &= key_at > position[:, None] - window
    if narrow(cache.dtype):
        numbers, scales = scaled(cache)
        cache = numbers.to(dtype) * scales[..., None]
    kv = cache.to(dtype)[:, metadata.block_table[row].long()].flatten(2, 3)
    keys, values = kv.repeat_interleave(heads // groups, 0).chunk(2)
    scores = torch.einsum("thd,htcd->thc", q.to(dtype), keys) * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(~seen[:, None], -torch.inf)
    weights = torch.softmax(scores, -1).masked_fill(~seen[:, None], 0.0)
    values = torch.where(seen[:, :, None], values, 0.0)
    return torch.einsum("thc,htcd->thd", weights, values).to(q.dtype)
