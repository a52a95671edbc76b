"""The spec of a step's end."""

from __future__ import annotations

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
    """Count what the rows have computed, and remember what they chose. Reads tensors freely.

    computed: tokens in the cache, [slots] int32. token_ids: known tokens, [slots, W] int32. slots:
    of the rows, [R] int64, each once. queries, rejected: query tokens, and drafts among them that
    were not accepted, [R] int32. at, positions, ids: slot, position and token of each choice, [J]
    int64; those behind a rejected draft lie beyond what counts, and are overwritten in time. In place of
    NO_TOKEN, which ends its request, 0 is remembered: steps may be under way that read it.
    """
    for slot, query, lost in zip(slots.tolist(), queries.tolist(), rejected.tolist(), strict=True):
        computed[slot] += query - lost
    for slot, position, token in zip(at.tolist(), positions.tolist(), ids.tolist(), strict=True):
        token_ids[slot, position] = max(token, 0)
