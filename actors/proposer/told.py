"""From an Accepted to the rows that a proposer is told of: what is news, and how many drafts are wanted."""

from __future__ import annotations

import numpy as np

from optimist.actors.proposer.base import NO_DRAFTS, StepRows
from optimist.actors.proposer.ledger import Accept, Ledger
from optimist.messages.base import ints
from optimist.messages.drafting import Accepted


def news(ledger: Ledger, told: Accepted, most: int, reach: int) -> StepRows:
    """The rows that are news of a request in its slot. The ledger knows them from now on.

    most: drafts of a row at most. reach: tokens of a request with its drafts at most.
    """
    slots, generations, starts, counts, wanted = (
        ints(values).tolist()
        for values in (told.slots, told.generations, told.starts, told.counts, told.wanted)
    )
    step, goes_on = told.after_step, ledger.goes_on
    rooms, odd = list[int](), list[int]()
    for row, (slot, generation, start, count) in enumerate(
        zip(slots, generations, starts, counts, strict=True)
    ):
        if not goes_on(slot, generation, step, start, count):
            odd.append(row)
        rooms.append(max(0, min(wanted[row], most, reach - start - count)))
    rows = StepRows(
        ints(told.slots),
        ints(told.generations),
        ints(told.counts),
        np.array(rooms, np.int32),
        ints(told.token_ids),
    )
    return _without(ledger, told, rows, odd) if odd else rows


def _without(ledger: Ledger, told: Accepted, rows: StepRows, odd: list[int]) -> StepRows:
    """The same rows, but of these only what the ledger takes for news."""
    parts = rows.parts()
    starts = ints(told.starts)
    for row in odd:
        slot, generation = int(rows.slots[row]), int(rows.generations[row])
        came = Accept(slot, generation, told.epoch, told.after_step, int(starts[row]), parts[row])
        fresh = ledger.accepts(came)
        parts[row] = NO_DRAFTS if fresh is None else fresh
    counts = np.array([len(part) for part in parts], np.int32)
    some = counts > 0
    tokens = np.concatenate([NO_DRAFTS, *parts])
    return StepRows(rows.slots[some], rows.generations[some], counts[some], rows.most[some], tokens)
