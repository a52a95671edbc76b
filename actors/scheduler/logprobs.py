"""The logprobs of a step, request by request."""

from __future__ import annotations

import numpy as np

from optimist.actors.scheduler.slots import Ints
from optimist.messages.base import column, ints
from optimist.messages.results import Logprobs


def by_row(logprobs: Logprobs | None, starts: Ints, counts: Ints) -> dict[int, Logprobs]:
    """The logprobs of each row that has some, by its place, counted from the row's first token.

    starts: index of each row's first token in the step's token_ids, [N]. counts: its tokens, [N].
    """
    if logprobs is None:
        return {}
    tokens = ints(logprobs.tokens)
    firsts = np.searchsorted(tokens, starts).tolist()
    lasts = np.searchsorted(tokens, starts + counts).tolist()
    tops = np.concatenate(([0], np.cumsum(ints(logprobs.counts), dtype=np.int64))).tolist()
    found: dict[int, Logprobs] = {}
    for row, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
        if first < last:
            own, top = slice(4 * first, 4 * last), slice(4 * tops[first], 4 * tops[last])
            found[row] = Logprobs(
                tokens=column(tokens[first:last] - starts[row]),
                chosen=logprobs.chosen[own],
                ranks=logprobs.ranks[own],
                counts=logprobs.counts[own],
                top_ids=logprobs.top_ids[top],
                top_values=logprobs.top_values[top],
            )
    return found
