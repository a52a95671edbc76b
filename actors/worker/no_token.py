"""Rows for which no token could be chosen: their logits were no numbers, or let no token in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]


def answered(counts: Ints, ids: Ints, places: NDArray[np.integer]) -> Ints:
    """Tokens of each row, [S]: its count, or 0 where one of them is none, which ends its request.

    ids: of all places, row by row, below 0 for none. places: of each row, [S], filled from the left.
    """
    if not (ids < 0).any():
        return counts
    ends = np.cumsum(places)
    within = np.arange(ids.size) - np.repeat(ends - places, places)
    none = (ids < 0) & (within < np.repeat(counts, places))
    kept = counts.copy()
    kept[np.repeat(np.arange(counts.size), places)[none]] = 0
    return kept
