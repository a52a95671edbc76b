"""What a result says of the rows of its step, as far as it can be believed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optimist.actors.scheduler.epoch import Flight
from optimist.actors.scheduler.slots import Ints, Rows
from optimist.messages.base import ints, size
from optimist.messages.results import StepResult

NOT_THERE = -1
"""stands for the place of a row that a result should have named and did not"""


class Brought(NamedTuple):
    """Tokens that a step brought.

    slots: rows that it brought tokens for, [N]. counts: how many, >= 1, [N]; starts: the index of each
    row's first in the result's token_ids, [N]. planned, run, held: drafts planned, verified and waiting at
    the worker for the next step, [N].
    failed: slots of rows that it should have brought tokens for, and did not. unknown: rows of others.
    """

    slots: Rows
    counts: Ints
    starts: Ints
    planned: Ints
    run: Ints
    held: Ints
    failed: Rows
    unknown: int

    def only(self, chosen: Rows) -> Brought:
        """Of these places alone."""
        return self._replace(
            slots=self.slots[chosen],
            counts=self.counts[chosen],
            starts=self.starts[chosen],
            planned=self.planned[chosen],
            run=self.run[chosen],
            held=self.held[chosen],
        )


def brought(flight: Flight, result: StepResult) -> Brought:
    """Match a result with its step. A row with more tokens or drafts than it can have has failed."""
    counts, run, held = map(ints, (result.token_counts, result.drafts_run, result.drafts_held))
    starts = counts.cumsum(dtype=np.int32) - counts
    held = held if result.drafts_held else np.zeros(len(run), np.int32)
    unknown = 0
    if (result.slots, result.generations) != (flight.slots_column, flight.generations_column):
        places = _places(flight, result)
        unknown = size(result.slots) - int(np.count_nonzero(places != NOT_THERE))
        counts, starts, run, held = (_picked(v, places) for v in (counts, starts, run, held))
    good = (counts > 0) & (counts <= 1 + run) & (run <= flight.drafts)
    failed = flight.sampling[~good]
    news = Brought(flight.sampling, counts, starts, flight.drafts, run, held, failed, unknown)
    return news.only(np.flatnonzero(good)) if failed.size else news


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
