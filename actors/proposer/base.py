"""What the proposer actor asks of whoever makes the guesses."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from optimist.actors.config import ProposerConfig

Ids = NDArray[np.int32]

NO_DRAFTS: Ids = np.zeros(0, np.int32)


class Proposer(ABC):
    """Guesses the next tokens of requests, each in a slot. One call at a time, none of which may wait.

    Token ids come as read-only [N] int32 arrays that are valid during the call only: copy what is
    kept. Whatever is raised or returned amiss is counted, costs drafts, and reaches nobody else.
    """

    def __init__(self, config: ProposerConfig) -> None:
        """config: options of a class are in its `proposer_options`. Raises ConfigError for a wrong one."""
        self.config = config

    @abstractmethod
    def open(self, slot: int, generation: int, token_ids: Ids) -> None:
        """A request is in the slot: all its tokens so far, prompt first. The slot was closed before."""

    def shares(self, slot: int, generation: int, salt: str | None) -> None:  # noqa: B027 - optional
        """Told before `open` with whom the request shares what it generates: with requests of the same
        salt and no others; None: with nobody, in either direction. Only for a class that drafts for one
        request what it learnt of another.
        """

    @abstractmethod
    def close(self, slot: int, generation: int) -> None:
        """It has left the slot."""

    @abstractmethod
    def accepted(self, slot: int, generation: int, token_ids: Ids) -> None:
        """It went on with these tokens, none of them missing, [N], N >= 1."""

    @abstractmethod
    def propose(self, slot: int, generation: int, max_drafts: int) -> Ids:
        """What may come next, likeliest continuation first to last, [n] integers, n <= max_drafts."""
