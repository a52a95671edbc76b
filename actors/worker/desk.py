"""Batches on their way to the device and results on their way back: pure, without device or loop."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from optimist.actors.worker.base import Limits, Outcome, RowDrafts
from optimist.actors.worker.core import Times, step_result
from optimist.actors.worker.late_drafts import Lack, LateDrafts
from optimist.messages.base import column
from optimist.messages.batches import Batch, ExactBatch
from optimist.messages.control import Resync
from optimist.messages.drafting import Accepted, Drafts
from optimist.messages.errors import MailboxFull
from optimist.messages.results import Capacity, StepResult
from optimist.transport.base import Ref


class Due(NamedTuple):
    """A batch that is to be submitted, with the host's drafts. None: drafts are not the host's."""

    batch: Batch
    drafts: RowDrafts | None


class Desk:
    """Keeps batches until their drafts are there, and results for as long as drafts are waited for.

    An OptimisticBatch waits for the drafts that it has room for. The result of an ExactBatch waits for
    the drafts that this says are wanted behind it, and says how many there are; so the next one asks for
    no more. Whoever has waited long enough gives up, and goes on with what is there.

    While an OptimisticBatch waits, so does the result of the step before it: drafts come first, and what the
    scheduler does with a result, perhaps on the same loop, is done while the device computes.
    """

    def __init__(
        self,
        incarnation: int,
        limits: Limits,
        scheduler: Ref[StepResult | Capacity | Resync],
        proposer: Ref[Accepted | Capacity] | None,
    ) -> None:
        self.late = LateDrafts(limits) if proposer is not None else None
        """None where the host drafts nothing"""
        self._incarnation = incarnation
        self._limits = limits
        self._scheduler = scheduler
        self._proposer = proposer
        self._batches: deque[Batch] = deque()
        self._held: deque[StepResult] = deque()
        self._later: deque[StepResult] = deque()
        """results that are sent when the next batch is the device's"""

    @property
    def waiting(self) -> bool:
        """Whether a batch waits to be submitted."""
        return bool(self._batches)

    def greet(self) -> None:
        """Tell the proposer how large the device is: it has asked, or may begin to draft."""
        if self._proposer is not None and self.late is not None:
            self.late.due.heard()
            self._proposer.send(Capacity(incarnation=self._incarnation, **self._limits._asdict()))

    def bury(self) -> None:
        """The proposer has died: what waits for its drafts waits no longer."""
        if self.late is not None:
            self.late.due.died()

    def put(self, batch: Batch) -> None:
        """A batch whose turn it is, behind those that wait."""
        self._batches.append(batch)
        self._ask()

    def take(self, drafts: Drafts) -> None:
        """Drafts came, perhaps for what waits here."""
        if self.late is not None:
            self.late.take(drafts)

    def lacks(self) -> Lack:
        """What the first batch waits for; without a batch, and for every other reason, nothing."""
        if self.late is None or not self._batches:
            return Lack.NOTHING
        return self.late.lacks(self._batches[0])

    def due(self, *, give_up: bool = False) -> Due | None:
        """The first batch, if it lacks nothing. give_up: or if it lacks drafts."""
        lack = self.lacks()
        if not self._batches or not (lack is Lack.NOTHING or (give_up and lack is Lack.DRAFTS)):
            return None
        batch = self._batches.popleft()
        return Due(batch, self.late.bind(batch) if self.late is not None else None)

    def went(self) -> None:
        """The batch that was due is the device's now: send the results that were kept until then."""
        while self._later:
            self._scheduler.send(self._later.popleft())

    def tell(self, batch: Batch, outcome: Outcome, times: Times) -> None:
        """The tokens of a step are readable: say so to the proposer, and to the scheduler or later."""
        result = step_result(self._incarnation, batch, outcome, times)
        if self.late is None:
            self._scheduler.send(result)
            return
        self.late.tell(result)
        self._ask()
        if isinstance(batch, ExactBatch):
            self._held.append(result)
            self.report()
        elif self._later or self.lacks() is Lack.DRAFTS:
            self._later.append(result)
        else:
            self._scheduler.send(result)

    def holds(self) -> bool:
        """Whether a result waits for drafts."""
        return bool(self._held)

    def report(self, *, give_up: bool = False) -> None:
        """Send the results that have waited for drafts. give_up: all of them."""
        while self._held and self.late is not None:
            result = self._held[0]
            if not (self.late.answered(result) or give_up):
                return
            self._held.popleft()
            if result.epoch != self.late.epoch:
                # Its slots are of others now.
                self._scheduler.send(result)
                continue
            held = column(self.late.hold(result))
            self._scheduler.send(msgspec.structs.replace(result, drafts_held=held))

    def _ask(self) -> None:
        """Tell the proposer what it is to be told, once it is known what the next batch has room for."""
        if self.late is None or self._proposer is None:
            return
        following = self._batches[0] if self._batches else None
        accepted = self.late.ask(self._incarnation, following)
        if accepted is None:
            return
        try:
            self._proposer.send(accepted)
        except MailboxFull:
            self.late.due.lost(accepted.after_step)
