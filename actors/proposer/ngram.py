"""Drafts by looking the last tokens up in the request's own history."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.base import NO_DRAFTS, Ids, Proposer
from optimist.actors.proposer.history import History
from optimist.actors.proposer.options import check_ngram


class NgramProposer(Proposer):
    """The longest match of at least ngram_min and at most ngram_max tokens; of equals the rightmost.

    Raises ConfigError when the two contradict each other.
    """

    def __init__(self, config: ProposerConfig) -> None:
        super().__init__(config)
        check_ngram(config.ngram_min, config.ngram_max)
        self._shortest, self._longest = config.ngram_min, config.ngram_max
        self._histories: dict[int, History] = {}

    def open(self, slot: int, generation: int, token_ids: Ids) -> None:
        self._histories[slot] = History(token_ids)

    def close(self, slot: int, generation: int) -> None:
        self._histories.pop(slot, None)

    def accepted(self, slot: int, generation: int, token_ids: Ids) -> None:
        self._histories[slot].append(token_ids)

    def propose(self, slot: int, generation: int, max_drafts: int) -> Ids:
        tokens = self._histories[slot].tokens
        end = match(tokens, self._shortest, self._longest)
        return NO_DRAFTS if end is None else continuation(tokens, end, max_drafts)


def match(tokens: Ids, shortest: int, longest: int) -> int | None:
    """Where the match of the last tokens ends, exclusively; None when so few do not occur before.

    tokens: [N] int32. Between `shortest` and `longest` tokens match, as many as can; of equally long
    matches the rightmost counts. The last tokens do not match themselves, but may overlap the match.
    """
    size = len(tokens)
    if size <= shortest:
        return None
    ends = (tokens[shortest - 1 : size - 1] == tokens[-1]).nonzero()[0] + shortest
    for back in range(2, shortest + 1):
        ends = _alike(tokens, ends, back)
    if not ends.size:
        return None
    for back in range(shortest + 1, longest + 1):
        longer = _alike(tokens, ends[ends >= back], back)
        if not longer.size:
            break
        ends = longer
    return int(ends[-1])


def _alike(tokens: Ids, ends: NDArray[np.intp], back: int) -> NDArray[np.intp]:
    """The ends whose token so far back is that of the history's own end."""
    return ends[tokens[ends - back] == tokens[-back]] if ends.size else ends


def continuation(tokens: Ids, start: int, count: int) -> Ids:
    """`count` tokens from `start` on, as if the history went on with the drafts themselves, [count]."""
    if start + count <= len(tokens):
        return tokens[start : start + count]
    return tokens[start + np.arange(count) % (len(tokens) - start)]
