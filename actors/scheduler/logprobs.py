"""The logprobs of a step, request by request."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optimist.messages.base import column, ints
from optimist.messages.results import Logprobs

_FIRST = column([0])


def by_token(logprobs: Logprobs | None) -> dict[int, Logprobs]:
    """From the index of a token in the step's token_ids to its own logprobs, `tokens` being [0]."""
    return dict(_each(logprobs)) if logprobs is not None else {}


def _each(logprobs: Logprobs) -> Iterator[tuple[int, Logprobs]]:
    counts = ints(logprobs.counts)
    ends = np.cumsum(counts, dtype=np.int64)
    bounds = zip((ends - counts).tolist(), ends.tolist(), strict=True)
    for i, (token, (start, end)) in enumerate(
        zip(ints(logprobs.tokens).tolist(), bounds, strict=True)
    ):
        own, top = slice(4 * i, 4 * i + 4), slice(4 * start, 4 * end)
        yield (
            token,
            Logprobs(
                tokens=_FIRST,
                chosen=logprobs.chosen[own],
                ranks=logprobs.ranks[own],
                counts=logprobs.counts[own],
                top_ids=logprobs.top_ids[top],
                top_values=logprobs.top_values[top],
            ),
        )
