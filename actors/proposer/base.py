"""What the proposer actor asks of whoever makes the guesses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

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


class StepRows(NamedTuple):
    """Requests that went on in a step, each in one row. counts: how many of token_ids are a row's, >= 0.

    slots, generations, counts: [S] int32. most: drafts that are wanted behind them at most, 0 for
    none, [S] int32. token_ids: [sum of counts] int32.
    """

    slots: Ids
    generations: Ids
    counts: Ids
    most: Ids
    token_ids: Ids

    def only(self, chosen: NDArray[np.bool_]) -> StepRows:
        """These rows alone, chosen: [S]."""
        ids = self.token_ids[np.repeat(chosen, self.counts)]
        slots, generations, counts, most = (column[chosen] for column in self[:4])
        return StepRows(slots, generations, counts, most, ids)

    def parts(self) -> list[Ids]:
        """The tokens of each row."""
        return np.split(self.token_ids, self.counts.cumsum()[:-1]) if self.counts.size else []


class StepProposer(Proposer):
    """One that takes all rows of a step in one call, since it can do so quicker than one by one.

    The methods for one slot must do the same: some rows come alone. What it raises in `step` costs the
    drafts of all rows, for the rest of their requests; what it answers amiss, those of the step.
    """

    @abstractmethod
    def step(self, rows: StepRows) -> tuple[Ids, Ids]:
        """As `accepted` for each row with tokens, then `propose` for each that wants some.

        Returns how many drafts each row gets, [S] integers of at most `most`, and which, [sum] integers.
        """


class Worth(NamedTuple):
    """What drafts would have been worth to rows that wanted none, had each of their new tokens been drafted
    for that a right draft would not have brought anyway. Columns, [S] int32.

    asked: how often they would have been asked for; at most as often as there are tokens. offered: how often
    there were some. drafted: drafts up to the first wrong one each time, it included; accepted: right ones.
    """

    asked: Ids
    offered: Ids
    drafted: Ids
    accepted: Ids


class RehearsingProposer(StepProposer):
    """One that can say what it would have drafted, so quickly that it may always be asked.

    Of a request that wants no drafts it is known then whether some would pay, and no step ever waits to
    find out.
    """

    @abstractmethod
    def rehearse(self, rows: StepRows, max_drafts: int) -> Worth:
        """As `step`, of rows that want none. max_drafts: that would have been asked for each time."""
