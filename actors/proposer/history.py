"""The tokens of one request, which only grow."""

from __future__ import annotations

import numpy as np

from optimist.actors.proposer.base import Ids


class History:
    """Append costs O(1) on average; reading copies nothing."""

    def __init__(self, token_ids: Ids) -> None:
        self._size = len(token_ids)
        self._buffer = np.empty(max(64, self._size + self._size // 2), np.int32)
        self._buffer[: self._size] = token_ids

    @property
    def tokens(self) -> Ids:
        """All of them, [N] int32, valid until the next append."""
        return self._buffer[: self._size]

    def append(self, token_ids: Ids) -> None:
        """token_ids: [N]."""
        end = self._size + len(token_ids)
        if end > len(self._buffer):
            wider = np.empty(2 * end, np.int32)
            wider[: self._size] = self.tokens
            self._buffer = wider
        self._buffer[self._size : end] = token_ids
        self._size = end
