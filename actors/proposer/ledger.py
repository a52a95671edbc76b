"""What the proposer knows of each slot, and whether it is all: pure, without address or class of drafts.

Open comes from the scheduler and Accepted from the worker, so either may overtake the other, and an
Accepted may be lost. Tokens are told on in order and without gaps, or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from optimist.actors.proposer.base import Ids
from optimist.messages.base import ints
from optimist.messages.drafting import Open

EARLY = 4096
"""tokens kept for a slot until its Open comes; of more, nothing is kept"""

LATE = 8
"""steps after which an Open that has not come is taken for lost: more than follow a request that left"""


class Accept(NamedTuple):
    """One row of an Accepted. step: in which its tokens were accepted. token_ids: [N]."""

    slot: int
    generation: int
    epoch: int
    step: int
    start: int
    token_ids: Ids


@dataclass(slots=True)
class _Open:
    """A request in a slot. step: the first that may add tokens. length: tokens told on."""

    generation: int
    epoch: int
    step: int
    length: int


class Ledger:
    """epoch: the newest seen; what belongs to an older one is closed or left out.

    gap: tokens of some slot are missing, so that its request must be opened again.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.gap = False
        self._open: dict[int, _Open] = {}
        self._early: dict[int, Accept] = {}
        self._late: dict[int, int] = {}

    def advance(self, epoch: int) -> list[tuple[int, int]]:
        """See an epoch. Returns the slots, and generations, that a newer one closes."""
        if epoch <= self.epoch:
            return []
        self.epoch, self.gap = epoch, False
        closed = [(slot, one.generation) for slot, one in self._open.items()]
        self._open.clear()
        self._late.clear()
        self._early = {slot: e for slot, e in self._early.items() if e.epoch >= epoch}
        return closed

    def opens(self, message: Open) -> Ids | None:
        """All tokens known of the request that is in the slot now, [N]; None when that is no news."""
        if message.epoch < self.epoch:
            return None
        tokens, slot = ints(message.token_ids), message.slot
        known = self._open.get(slot)
        if known is not None and _told(known, message, len(tokens)):
            return None
        self._late.pop(slot, None)
        early = self._early.pop(slot, None)
        if early is not None and _continues(early, message, len(tokens)):
            tokens = np.concatenate((tokens, early.token_ids[len(tokens) - early.start :]))
        self._open[slot] = _Open(message.generation, message.epoch, message.step, len(tokens))
        return tokens

    def holds(self, slot: int) -> int | None:
        """The generation of the request in a slot, None when it is empty."""
        known = self._open.get(slot)
        return None if known is None else known.generation

    def length(self, slot: int) -> int:
        """Tokens told on of the request in a slot that is not empty."""
        return self._open[slot].length

    def closes(self, slot: int, generation: int) -> bool:
        """The request has left. False when it was not there."""
        if self.holds(slot) != generation:
            return False
        del self._open[slot]
        self._early.pop(slot, None)
        self._late.pop(slot, None)
        return True

    def accepts(self, row: Accept) -> Ids | None:
        """The tokens of a row that are news of a request that is in its slot, [N]; None when none are."""
        if row.epoch < self.epoch:
            return None
        known = self._open.get(row.slot)
        if known is not None and row.step < known.step:
            return None
        if known is None or known.generation != row.generation:
            # Its Open is late, or its request has left: time will tell.
            self._keep(row)
            self._late[row.slot] = self._late.get(row.slot, 0) + 1
            self.gap |= self._late[row.slot] >= LATE
            return None
        if row.start > known.length:
            self._keep(row)
            self.gap = True
            return None
        news = row.token_ids[known.length - row.start :]
        known.length += len(news)
        return news if len(news) else None

    def goes_on(self, slot: int, generation: int, step: int, start: int, count: int) -> bool:
        """As `accepts`, without an object, for a row of this epoch that may be as expected: all its tokens
        are news of the request in its slot. False, and nothing has changed, when it is not.
        """
        known = self._open.get(slot)
        if known is None or known.generation != generation or known.length != start:
            return False
        if step < known.step or not count:
            return False
        known.length = start + count
        return True

    def _keep(self, row: Accept) -> None:
        """Remember tokens whose request is not open yet, as one run without gaps."""
        before = self._early.get(row.slot)
        tokens = row.token_ids.copy()
        if before is not None and before.generation == row.generation:
            reach = before.start + len(before.token_ids)
            if row.start == reach and reach + len(tokens) - before.start <= EARLY:
                tokens = np.concatenate((before.token_ids, tokens))
                row = row._replace(start=before.start)
        self._early[row.slot] = row._replace(token_ids=tokens)


def _told(known: _Open, message: Open, tokens: int) -> bool:
    """Whether this is the request that is there already, opened again without news."""
    same = known.generation == message.generation and known.step <= message.step
    return same and tokens <= known.length


def _continues(early: Accept, message: Open, tokens: int) -> bool:
    fits = early.start <= tokens <= early.start + len(early.token_ids)
    stay = early.generation == message.generation and early.epoch == message.epoch
    return fits and stay and early.step >= message.step
