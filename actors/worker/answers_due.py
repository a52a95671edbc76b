"""What the proposer has been told of and has not answered: is an answer to be waited for?

Pure: without clock, device or address.
"""

from __future__ import annotations

from collections import deque

UNANSWERED = 64
"""steps that a proposer is told of without an answer; of more it is not told, until it asks"""

SILENT, AGAIN = 8, 64
"""batches that ran before the answer came, after which nobody waits for the next one; but of so many batches
one waits, to see whether it comes in time now"""


class AnswersDue:
    """silent: batches since the last answer that came in time, which an answer to be expected was for."""

    def __init__(self) -> None:
        self.silent = 0
        self._dead = False
        self._asked: deque[int] = deque(maxlen=UNANSWERED)

    @property
    def deaf(self) -> bool:
        """Whether there is nobody to be told, or nobody who listens."""
        return self._dead or len(self._asked) >= UNANSWERED

    def expects(self, step: int) -> bool:
        """Whether an answer behind this step is worth a wait."""
        hopeful = self.silent < SILENT or self.silent % AGAIN == 0
        return hopeful and step in self._asked

    def asked(self, step: int) -> None:
        """The proposer is told of a step."""
        self._asked.append(step)

    def lost(self, step: int) -> None:
        """It could not be told after all."""
        if self._asked and self._asked[-1] == step:
            self._asked.pop()

    def answered(self, step: int, *, of_use: bool) -> None:
        """An answer came, for this step and those before. of_use: nothing has gone on without it."""
        if of_use:
            self.silent = 0
        while self._asked and self._asked[0] <= step:
            self._asked.popleft()

    def given_up(self, step: int) -> None:
        """What is behind this step goes on, and cares for no answer any more: is one still to come?"""
        self.silent += step in self._asked

    def heard(self) -> None:
        """A proposer begins to live: what an earlier one was told is not going to be answered."""
        self._asked.clear()
        self._dead, self.silent = False, 0

    def died(self) -> None:
        """There is no proposer: nothing is waited for, and nobody is told, until one begins to live."""
        self._asked.clear()
        self._dead = True

    def reset(self) -> None:
        """A new epoch: nobody answers for the one before it."""
        self._asked.clear()
