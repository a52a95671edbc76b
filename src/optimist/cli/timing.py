"""How long a continuation took."""

from __future__ import annotations

import time
from collections.abc import Callable


class Timing:
    """Watches one request from now on. clock: seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._begun = clock()
        self._first: float | None = None
        self._last = self._begun
        self._first_tokens = 0
        self._tokens = 0

    def took(self, tokens: int) -> None:
        """So many tokens have just come."""
        if not tokens:
            return
        self._last = self._clock()
        self._tokens += tokens
        if self._first is None:
            self._first, self._first_tokens = self._last, tokens

    @property
    def ttft_ms(self) -> float | None:
        """Milliseconds to the first token; None before it."""
        return None if self._first is None else round(1000 * (self._first - self._begun), 2)

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens a second after the first ones; over the whole time when all came at once."""
        if self._first is None:
            return None
        later, since = self._tokens - self._first_tokens, self._first
        if not later:
            later, since = self._tokens, self._begun
        return round(later / max(self._last - since, 1e-9), 2)
