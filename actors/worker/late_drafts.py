"""Drafts from the host, which come when a batch has long been built: who waits for them, and who is asked.

Pure: without clock, device or address.
"""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import NDArray

from optimist.actors.worker.answers_due import AnswersDue
from optimist.actors.worker.base import Limits, RowDrafts
from optimist.actors.worker.kept_drafts import EMPTY_SLOT, NEVER, KeptDrafts
from optimist.actors.worker.untold import Untold
from optimist.messages.base import Column, column, ints, size
from optimist.messages.batches import Batch, ExactBatch
from optimist.messages.drafting import Accepted, Drafts
from optimist.messages.results import StepResult

Ints = NDArray[np.int32]

NO_IDS: Ints = np.zeros(0, np.int32)


class Lack(enum.Enum):
    """What a batch waits for. RESULT: the tokens behind which drafts are made."""

    NOTHING = "nothing"
    RESULT = "result"
    DRAFTS = "drafts"


class LateDrafts:
    """kept: drafts that came. due: what the proposer was told of and has not answered."""

    _epoch: int
    _told: int
    _said: int
    _wishful: bool
    """whether some slot, as far as is known, may want drafts although no batch says so"""
    _expecting: bool
    """whether of some slot drafts may be expected at all"""

    def __init__(self, limits: Limits) -> None:
        self.kept = KeptDrafts(limits)
        self.due = AnswersDue()
        self._most = limits.max_model_len
        self._slots = limits.max_slots
        self._reset(NEVER)

    def lacks(self, batch: Batch) -> Lack:
        """What this batch, which comes next, waits for."""
        step = self._behind(batch)
        return Lack.NOTHING if step is None else self._lacks(step)

    @property
    def epoch(self) -> int:
        """Of the newest batch that was bound."""
        return self._epoch

    def answered(self, result: StepResult) -> bool:
        """Whether there is nothing to wait for behind a step of an ExactBatch, whose tokens are known."""
        if result.epoch != self._epoch or not self._wants(result.step):
            return True
        return self._lacks(result.step) is Lack.NOTHING

    def bind(self, batch: Batch) -> RowDrafts:
        """The drafts of the batch that comes next, which is submitted now.

        Raises MessageError when it counts on drafts that were not announced.
        """
        if batch.epoch != self._epoch:
            self._reset(batch.epoch)
        if (step := self._behind(batch)) is not None:
            self.due.given_up(step)
        if batch.closed or batch.opened:
            self._move(batch)
        self._expect(batch)
        if any_of(batch.draft_counts):
            self._wishful = True
            drafts = self.kept.of(batch)
        else:
            drafts = RowDrafts(ints(batch.draft_counts), NO_IDS)
        self.kept.went_on(sampling_slots(batch), batch.step)
        return drafts

    def take(self, drafts: Drafts) -> None:
        """Drafts came. What is stale, of another slot or request, or no token at all is left out."""
        dropped = self.kept.dropped
        if drafts.epoch != self._epoch:
            dropped["epoch"] += size(drafts.slots)
        elif drafts.after_step > self._told:
            dropped["step"] += size(drafts.slots)
        else:
            # Of no use is an answer, even with nothing, once the batches that it is for have gone.
            of_use = self.kept.open_behind(drafts.after_step)
            self.due.answered(drafts.after_step, of_use=of_use)
            if drafts.slots:
                self.kept.keep(drafts)

    def tell(self, result: StepResult) -> None:
        """The tokens of a step are known now."""
        if result.epoch == self._epoch:
            self._told = max(self._told, result.step)
            self._untold.add(result.slots, result.token_counts, result.token_ids)

    def ask(self, incarnation: int, following: Batch | None) -> Accepted | None:
        """What the proposer is to be told now; None: nothing. Once for each step that is told of.

        It is told of slots that want drafts, and of all when many steps wait to be told.
        following: the batch that comes next, if that is there.
        """
        some = following is not None and any_of(following.draft_counts)
        if self._told <= self._said or not (some or self._wishful or self._untold.many):
            return None
        if self.due.deaf:
            self._untold.forget()
            return None
        wanted = self._wanted(following)
        self._wishful = bool(wanted.any())
        generation = self.kept.generation
        there = self._untold.waiting() & (generation != EMPTY_SLOT)
        slots = np.flatnonzero(there if self._untold.many else there & (wanted > 0))
        if not slots.size:
            return None
        self._said = self._told
        self.due.asked(self._told)
        counts, ids = self._untold.take(slots)
        return Accepted(
            incarnation=incarnation,
            epoch=self._epoch,
            after_step=self._told,
            slots=column(slots),
            generations=column(generation[slots]),
            counts=column(counts),
            token_ids=column(ids),
            starts=column(self._untold.known[slots] - counts),
            wanted=column(wanted[slots]),
        )

    def hold(self, result: StepResult) -> Ints:
        """How many drafts there are for the next step of each of its slots, [S]: from now on no others."""
        if self._wants(result.step):
            self.due.given_up(result.step)
        slots = ints(result.slots)
        return self.kept.hold(slots, self._expected[slots])

    def _behind(self, batch: Batch) -> int | None:
        """The step behind which drafts of this batch are made; None if it waits for none."""
        if not any_of(batch.draft_counts):
            return None
        if batch.epoch != self._epoch or isinstance(batch, ExactBatch):
            return None
        slots = ints(batch.slots)[: batch.num_decodes][ints(batch.draft_counts) > 0]
        return int(self.kept.sampled[slots].max())

    def _lacks(self, step: int) -> Lack:
        if step > self._told:
            return Lack.RESULT
        return Lack.DRAFTS if self.due.expects(step) else Lack.NOTHING

    def _wants(self, step: int) -> bool:
        """Whether drafts are expected to be wanted behind this step."""
        return bool(self._expected[self.kept.sampled == step].any())

    def _reset(self, epoch: int) -> None:
        self._epoch = epoch
        self._told = self._said = NEVER
        self._wishful = self._expecting = False
        self._untold = Untold(self._slots)
        self._expected: Ints = np.zeros(self._slots, np.int32)
        self.kept.reset()
        self.due.reset()

    def _move(self, batch: Batch) -> None:
        """Requests leave their slots, and others come."""
        closed = ints(batch.closed)
        self.kept.close(closed)
        self._untold.close(closed)
        self._expected[closed] = 0
        for opened in batch.opened:
            self.kept.open(opened.slot, opened.generation)
            self._untold.open(opened.slot, size(opened.token_ids))
            self._expected[opened.slot] = self._most
            self._wishful = self._expecting = True

    def _expect(self, batch: Batch) -> None:
        """How many drafts the slots of this batch may want behind it.

        An exact one says so. Behind another, as many as there can be if it had room for some.
        """
        if isinstance(batch, ExactBatch):
            wanted = ints(batch.drafts_wanted) if batch.drafts_wanted else 0
            self._expected[ints(batch.slots)] = wanted
            self._wishful = any_of(batch.drafts_wanted)
        elif self._expecting or any_of(batch.draft_counts):
            slots = ints(batch.slots)[: batch.num_decodes]
            self._expected[slots] = np.where(ints(batch.draft_counts) > 0, np.int32(self._most), 0)
            self._expecting = bool(self._expected.any())

    def _wanted(self, following: Batch | None) -> Ints:
        """Drafts that are wanted behind the step that was told last, [max_slots]."""
        wanted = self._expected.copy()
        if following is not None and following.epoch == self._epoch:
            wanted[ints(following.closed)] = 0
            wanted[ints(following.slots)[: following.num_decodes]] = ints(following.draft_counts)
        # Elsewhere the next step has begun.
        wanted[self.kept.sampled != self._told] = 0
        return wanted


def sampling_slots(batch: Batch) -> Ints:
    """Slots of the rows that end in a new token: decode rows, then prefill rows, [S]."""
    slots = ints(batch.slots)
    if isinstance(batch, ExactBatch):
        sampling: Ints = slots[ints(batch.samples) == 1]
        return sampling
    border = batch.num_decodes
    if not batch.prefill.slots:
        return slots
    prefill: Ints = slots[border:][ints(batch.prefill.samples) == 1]
    return np.concatenate([slots[:border], prefill])


def any_of(counts: Column) -> bool:
    """Whether one of these counts is not 0."""
    return bool(counts.strip(b"\0"))
