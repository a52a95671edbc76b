"""What a result says of the rows of its step, as far as it can be believed."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from optimist.actors.scheduler.epoch import Flight
from optimist.actors.scheduler.slots import Ints, Rows
from optimist.messages.base import EMPTY, Column, column, ints, size
from optimist.messages.results import StepResult

_NOBODY: Rows = np.zeros(0, np.intp)

NOT_THERE = -1
"""stands for the place of a row that a result should have named and did not"""


class Brought(NamedTuple):
    """Tokens that a step brought.

    slots: rows that it brought tokens for, [N]. counts: how many, >= 1, [N]; starts: the index of each
    row's first in the result's token_ids, [N]. asked, planned, run, held: drafts asked for, planned, verified, and
    waiting at the worker for the next step, [N].
    failed: slots of rows that it should have brought tokens for, and did not. unknown: rows of others.
    empty: those of `failed` for which the worker says that no token could be chosen.
    """

    slots: Rows
    counts: Ints
    starts: Ints
    asked: Ints
    planned: Ints
    run: Ints
    held: Ints
    failed: Rows
    unknown: int
    empty: frozenset[int] = frozenset()

    def only(self, chosen: Rows) -> Brought:
        """Of these places alone."""
        return self._replace(
            slots=self.slots[chosen],
            counts=self.counts[chosen],
            starts=self.starts[chosen],
            asked=self.asked[chosen],
            planned=self.planned[chosen],
            run=self.run[chosen],
            held=self.held[chosen],
        )


def brought(flight: Flight, result: StepResult) -> Brought:
    """Match a result with its step. A row with more tokens or drafts than it can have has failed."""
    if _is_plain(flight, result):
        return _plain(flight)
    counts, run, held = map(ints, (result.token_counts, result.drafts_run, result.drafts_held))
    starts = counts.cumsum(dtype=np.int32) - counts
    held = held if result.drafts_held else np.zeros(len(run), np.int32)
    named = np.ones(flight.sampling.size, np.bool_)
    unknown = 0
    if (result.slots, result.generations) != (flight.slots_column, flight.generations_column):
        places = _places(flight, result)
        named = places != NOT_THERE
        unknown = size(result.slots) - int(np.count_nonzero(named))
        counts, starts, run, held = (_picked(v, places) for v in (counts, starts, run, held))
    good = (counts > 0) & (counts <= 1 + run) & (run <= flight.drafts)
    failed = flight.sampling[~good]
    planned = (flight.asked, flight.drafts)
    news = Brought(flight.sampling, counts, starts, *planned, run, held, failed, unknown)
    if not failed.size:
        return news
    empty = frozenset(flight.sampling[named & (counts == 0)].tolist())
    return news.only(np.flatnonzero(good))._replace(empty=empty)


def _is_plain(flight: Flight, result: StepResult) -> bool:
    """Whether each row of the step, and no other, brought one token, and there were no drafts."""
    ones, zeros, _, _ = _alike(len(flight.sampling))
    return (
        result.token_counts == ones
        and result.drafts_run == zeros
        and result.drafts_held in (zeros, EMPTY)
        and (result.slots, result.generations) == (flight.slots_column, flight.generations_column)
    )


def _plain(flight: Flight) -> Brought:
    _, zeros, counts, starts = _alike(len(flight.sampling))
    none = ints(zeros)
    planned = (flight.asked, flight.drafts)
    return Brought(flight.sampling, counts, starts, *planned, none, none, _NOBODY, 0)


@lru_cache
def _alike(rows: int) -> tuple[Column, Column, Ints, Ints]:
    """For so many rows: 1 for each, 0 for each, and as arrays, which cannot be written, 1 and its number."""
    ones, numbers = column(np.ones(rows, np.int32)), column(np.arange(rows, dtype=np.int32))
    return ones, bytes(4 * rows), ints(ones), ints(numbers)


def _places(flight: Flight, result: StepResult) -> Rows:
    """Where each sampling row is in a result with other rows than the plan asked for."""
    names = zip(ints(result.slots).tolist(), ints(result.generations).tolist(), strict=True)
    found = {name: place for place, name in enumerate(names)}
    slots, generations = ints(flight.slots_column), ints(flight.generations_column)
    wanted = zip(slots.tolist(), generations.tolist(), strict=True)
    return np.array([found.pop(name, NOT_THERE) for name in wanted], np.intp)


def _picked(values: Ints, places: Rows) -> Ints:
    """The values at these places, 0 where a row is not there."""
    return np.array([values[p] if p != NOT_THERE else 0 for p in places], np.int32)
