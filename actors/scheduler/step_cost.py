"""What a step takes, learnt from the steps that ran: by its query tokens, and by what drafts add."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Costs = NDArray[np.float64]

Numbers = NDArray[np.integer] | NDArray[np.float64]
"""of tokens or drafts: whole, or on average"""

NEWEST = 0.1
"""weight of the newest step among those of its size"""

ALONG = 0.25
"""how much of a change other sizes follow: contexts grow, and machines get busy, for all of them"""

WILD = 4.0
"""a step is not believed to take more than this times what was known, nor less than its inverse"""

_WILDEST = math.log(WILD)

DOUBLE = 16.0
"""tokens that double the cost of a step, before there is a measurement"""

PER_DRAFT, PER_PASS = 1 / 64, 1 / 8
"""what a draft, and a pass of whoever drafts on the device, add to a step of one token until they are
measured: little, for what is tried is soon measured"""

LATER, SOON = 2.0, 1 / 4
"""a wait for drafts is not believed to be longer than this times what was known, or than this share of a step:
on a busy machine one that is far longer says nothing of drafts, but would end all attempts"""

FORGET = 0.995
"""weight of the past at each step with drafts"""

NOISE = 0.05
"""how far a step is from what it should take, as a share: how much measurements outweigh assumptions"""


class StepCost:
    """Sizes are gathered in classes, four to each doubling; between and beyond them it is interpolated."""

    def __init__(self) -> None:
        self._sizes: Costs = np.zeros(0)
        self._logs: Costs = np.zeros(0)
        self._seen: Costs = np.zeros(0)
        self._places: dict[int, int] = {}

    def ran(self, tokens: int, step_us: int) -> None:
        """A step of so many query tokens took so many microseconds. One that says 0 was not timed."""
        if tokens < 1 or step_us < 1:
            return
        log = math.log(step_us)
        if (at := self._places.get(tokens)) is None:
            at = self._place(tokens, log)
        change = min(max(log - float(self._logs[at]), -_WILDEST), _WILDEST)
        self._seen[at] += 1
        weight = max(1 / float(self._seen[at]), NEWEST)
        self._logs += ALONG * NEWEST * change
        self._logs[at] += (weight - ALONG * NEWEST) * change

    def follow(self, ratio: float) -> None:
        """A step of another kind took so many times what it should have."""
        self._logs += ALONG * NEWEST * min(max(math.log(ratio), -_WILDEST), _WILDEST)

    def of(self, tokens: Numbers) -> Costs:
        """The cost of steps of these sizes, each >= 1, in a unit of its own, [N]; more tokens, more cost."""
        shape = 1 + tokens / DOUBLE
        if not self._sizes.size:
            return shape
        # Relative to the assumed shape, so that it goes on beyond the sizes that were seen.
        logs = self._logs - np.log1p(self._sizes / DOUBLE)
        cost: Costs = shape * np.exp(np.interp(np.log(tokens), np.log(self._sizes), logs))
        return np.maximum.accumulate(cost)

    def knows(self, tokens: int) -> bool:
        """Whether a step of about so many query tokens has run."""
        return bool((self._sizes == _class_of(tokens)).any())

    @property
    def empty(self) -> bool:
        """Whether none has run, of whatever size."""
        return not self._sizes.size

    def _place(self, tokens: int, log: float) -> int:
        """Where the class of such steps is; a new one begins with this one."""
        size = _class_of(tokens)
        at = int(np.searchsorted(self._sizes, size))
        if at == len(self._sizes) or self._sizes[at] != size:
            self._sizes = np.insert(self._sizes, at, size)
            self._logs, self._seen = np.insert(self._logs, at, log), np.insert(self._seen, at, 0)
            self._places.clear()
        self._places[tokens] = at
        return at


class DraftCost:
    """Steps with drafts beside those without.

    passes: drafts are made in the step itself, one pass for all rows after the other: a step with one
    draft in each of 8 rows takes another time than one with 8 drafts in one row. Each draft and each
    pass then adds to what the other tokens take; how much is fitted to the steps with drafts.
    """

    def __init__(self, *, passes: bool) -> None:
        self._passes = passes
        self._steps = StepCost()
        self._wait = self._waits = 0.0
        self._squares, self._products = np.zeros((2, 2)), np.zeros(2)

    def ran(self, tokens: int, step_us: int, drafts: int, longest: int) -> None:
        """A step took so many microseconds; `drafts` of its query tokens were such, `longest` in a row."""
        if not (self._passes and drafts):
            self._steps.ran(tokens, step_us)
        elif step_us > 0 and tokens > drafts and not self._steps.empty:
            self._fit(tokens - drafts, step_us, np.array([drafts, longest], np.float64))

    def waited(self, idle_us: int) -> None:
        """Before a step that had room for drafts the device stood still for so many microseconds."""
        if not self._steps.empty:
            one = float(self._steps.of(np.array([1]))[0])
            idle_us = int(min(idle_us, max(LATER * self._wait, SOON * one)))
        self._waits += 1
        self._wait += max(1 / self._waits, NEWEST) * (idle_us - self._wait)

    def knows(self, rows: int) -> bool:
        """Whether it is known what a step of about so many rows takes without drafts, where that matters."""
        return not self._passes or self._steps.knows(rows)

    def of(self, rows: int, drafts: Numbers, longest: NDArray[np.integer]) -> Costs:
        """The cost of steps of so many decode rows with so many drafts, of these `longest` in a row, [N].

        The wait for drafts is part of it: it is the same for one or for many.
        """
        wait = np.where(drafts > 0, self._wait, 0.0)
        if not self._passes:
            total: Costs = self._steps.of(rows + drafts) + wait
            return total
        each, one_pass = self._adds()
        base = float(self._steps.of(np.array([rows]))[0])
        with_passes: Costs = base + each * drafts + one_pass * longest + wait
        return with_passes

    def _fit(self, others: int, step_us: int, added: Costs) -> None:
        """others: query tokens of the step beside its drafts. added: drafts and passes, [2]."""
        base = float(self._steps.of(np.array([others]))[0])
        expected = base + float(added @ self._adds())
        took = min(max(float(step_us), expected / WILD), expected * WILD)
        self._steps.follow(took / expected)
        # A large step, with prompts in it, says little of drafts.
        self._squares = FORGET * self._squares + np.outer(added, added) / base**2
        self._products = FORGET * self._products + added * (took - base) / base**2

    def _adds(self) -> Costs:
        """What a draft and a pass add, each >= 0, [2]."""
        one = float(self._steps.of(np.array([1]))[0])
        assumed = one * np.array([PER_DRAFT, PER_PASS])
        trust = np.diag((NOISE / assumed) ** 2)
        squares, products = self._squares + trust, self._products + trust @ assumed
        found: Costs = np.linalg.solve(squares, products).astype(np.float64)
        if found.min() >= 0:
            return found
        alone = np.zeros(2)
        other = int(found.argmax())
        alone[other] = max(products[other] / squares[other, other], 0.0)
        return alone


def _class_of(tokens: int) -> float:
    return float(np.round(2 ** (np.round(4 * np.log2(tokens)) / 4), 2))
