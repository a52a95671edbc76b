"""Drafts from the host, which come when a batch has long been built: what they may be used for, and when.

Pure: without clock, device or address.
"""

from __future__ import annotations

import enum
from collections import Counter, deque

import numpy as np
from numpy.typing import NDArray

from optimist.actors.worker.base import Limits, RowDrafts
from optimist.actors.worker.untold import Untold
from optimist.messages.base import Column, column, ints, size
from optimist.messages.batches import Batch, ExactBatch
from optimist.messages.drafting import Accepted, Drafts
from optimist.messages.errors import MessageError
from optimist.messages.results import StepResult

Ints = NDArray[np.int32]

EMPTY_SLOT = -1
"""generation of a slot that no request is in"""

NEVER = -1
"""the step of what has not happened in this epoch"""

NO_IDS: Ints = np.zeros(0, np.int32)

UNANSWERED = 64
"""steps that a proposer is told of without an answer; of more it is not told, until it asks"""

SILENT, AGAIN = 8, 64
"""batches that ran before the answer came, after which nobody waits for the next one; but of so many batches
one waits, to see whether it comes in time now"""


class Lack(enum.Enum):
    """What a batch waits for. RESULT: the tokens behind which drafts are made."""

    NOTHING = "nothing"
    RESULT = "result"
    DRAFTS = "drafts"


class LateDrafts:
    """Columns by slot. A draft belongs behind the step in which its slot last sampled, and nowhere else.

    dropped: rows of Drafts that were of no use, by reason. silent: batches since the last
    answer that came in time, which an answer to be expected would have been for.
    """

    _epoch: int
    _told: int
    _said: int
    _wishful: bool
    """whether some slot, as far as is known, may want drafts although no batch says so"""
    _answered: int
    _asked: deque[int]
    _dead: bool = False

    def __init__(self, limits: Limits) -> None:
        self.dropped: Counter[str] = Counter()
        self.silent = 0
        self._vocab_size = limits.vocab_size
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

    def answered(self, result_epoch: int, step: int) -> bool:
        """Whether there is nothing to wait for behind this step, whose tokens are known."""
        return result_epoch != self._epoch or self._lacks(step) is Lack.NOTHING

    def bind(self, batch: Batch) -> RowDrafts:
        """The drafts of the batch that comes next, which is submitted now.

        Raises MessageError when it counts on drafts that were not announced.
        """
        if batch.epoch != self._epoch:
            self._reset(batch.epoch)
        if (step := self._behind(batch)) is not None:
            self.unanswered(step)
        if batch.closed or batch.opened:
            self._move(batch)
        drafts = self._drafts(batch)
        sampling = sampling_slots(batch)
        self._sampled[sampling] = batch.step
        self._count[sampling] = 0
        self._final[sampling] = False
        return drafts

    def take(self, drafts: Drafts) -> None:
        """Drafts came. What is stale, of another slot or request, or no token at all is left out."""
        if drafts.epoch != self._epoch:
            self.dropped["epoch"] += size(drafts.slots)
        elif drafts.after_step > self._told:
            self.dropped["step"] += size(drafts.slots)
        else:
            self._answered = max(self._answered, drafts.after_step)
            current = (self._sampled == drafts.after_step) & ~self._final
            if (current & (self._generation != EMPTY_SLOT)).any():
                # Of no use is an answer, even with nothing, once the batches that it is for have gone.
                self.silent = 0
            while self._asked and self._asked[0] <= self._answered:
                self._asked.popleft()
            if drafts.slots:
                self._keep(drafts)

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
        if self._dead or len(self._asked) >= UNANSWERED:
            self._untold.forget()
            return None
        wanted = self._wanted(following)
        self._wishful = bool(wanted.any())
        there = self._untold.waiting() & (self._generation != EMPTY_SLOT)
        slots = np.flatnonzero(there if self._untold.many else there & (wanted > 0))
        if not slots.size:
            return None
        self._said = self._told
        self._asked.append(self._told)
        counts, ids = self._untold.take(slots)
        return Accepted(
            incarnation=incarnation,
            epoch=self._epoch,
            after_step=self._told,
            slots=column(slots),
            generations=column(self._generation[slots]),
            counts=column(counts),
            token_ids=column(ids),
            starts=column(self._untold.known[slots] - counts),
            wanted=column(wanted[slots]),
        )

    def lost(self, accepted: Accepted) -> None:
        """The proposer could not be told after all."""
        if self._asked and self._asked[-1] == accepted.after_step:
            self._asked.pop()

    def heard(self) -> None:
        """A proposer begins to live: what an earlier one was told is not going to be answered."""
        self._asked.clear()
        self._dead, self.silent = False, 0

    def died(self) -> None:
        """There is no proposer: nothing is waited for, and nobody is told, until one begins to live."""
        self._asked.clear()
        self._dead = True

    def hold(self, slots: Column) -> Ints:
        """How many drafts there are for the next step of each of these slots, [S]: from now on no others."""
        at = ints(slots)
        self._final[at] = True
        return self._count[at]

    def unanswered(self, step: int) -> None:
        """What is behind this step goes on, and cares for no answer any more: is one still to come?"""
        self.silent += step in self._asked

    def _behind(self, batch: Batch) -> int | None:
        """The step behind which drafts of this batch are made; None if it waits for none."""
        if not any_of(batch.draft_counts):
            return None
        if batch.epoch != self._epoch or isinstance(batch, ExactBatch):
            return None
        slots = ints(batch.slots)[: batch.num_decodes][ints(batch.draft_counts) > 0]
        return int(self._sampled[slots].max())

    def _lacks(self, step: int) -> Lack:
        if step > self._told:
            return Lack.RESULT
        hopeful = self.silent < SILENT or self.silent % AGAIN == 0
        waiting = hopeful and step in self._asked
        return Lack.DRAFTS if waiting else Lack.NOTHING

    def _reset(self, epoch: int) -> None:
        self._epoch = epoch
        self._told = self._said = self._answered = NEVER
        self._asked = deque(maxlen=UNANSWERED)
        self._wishful = False
        self._generation: Ints = np.full(self._slots, EMPTY_SLOT, np.int32)
        self._sampled: NDArray[np.int64] = np.full(self._slots, NEVER, np.int64)
        self._untold = Untold(self._slots)
        self._had_room: NDArray[np.bool_] = np.zeros(self._slots, np.bool_)
        self._count: Ints = np.zeros(self._slots, np.int32)
        self._ids: Ints = np.zeros((self._slots, 8), np.int32)
        self._final: NDArray[np.bool_] = np.zeros(self._slots, np.bool_)

    def _move(self, batch: Batch) -> None:
        """Requests leave their slots, and others come."""
        closed = ints(batch.closed)
        self._generation[closed] = EMPTY_SLOT
        self._untold.close(closed)
        for opened in batch.opened:
            slot = opened.slot
            self._generation[slot] = opened.generation
            self._untold.open(slot, size(opened.token_ids))
            self._sampled[slot], self._count[slot], self._final[slot] = NEVER, 0, False
            self._had_room[slot] = self._wishful = True

    def _drafts(self, batch: Batch) -> RowDrafts:
        """Of its decode rows, as many as there are and there is room for."""
        slots, room = ints(batch.slots)[: batch.num_decodes], ints(batch.draft_counts)
        if not isinstance(batch, ExactBatch):
            # Exact steps are planned with the drafts that there are.
            self._had_room[slots] = room > 0
        if not any_of(batch.draft_counts):
            return RowDrafts(room, NO_IDS)
        self._wishful = True
        counts = np.minimum(self._count[slots], room)
        if isinstance(batch, ExactBatch) and (counts < room).any():
            row = int(np.flatnonzero(counts < room)[0])
            raise MessageError(
                f"batch.draft_counts: expected at most {counts[row]} in slot {slots[row]}, got {room[row]}"
            )
        ids = self._ids[slots][np.arange(self._ids.shape[1]) < counts[:, None]]
        return RowDrafts(counts.astype(np.int32), ids)

    def _wanted(self, following: Batch | None) -> Ints:
        """Drafts that are wanted behind the step that was told last, [max_slots].

        Of a slot that the batch does not name, as many as there can be if it had room for some last.
        """
        wanted = np.where(self._had_room, np.int32(self._most), np.int32(0))
        if following is not None and following.epoch == self._epoch:
            wanted[ints(following.closed)] = 0
            wanted[ints(following.slots)[: following.num_decodes]] = ints(following.draft_counts)
        # Elsewhere the next step has begun.
        wanted[self._sampled != self._told] = 0
        return wanted

    def _keep(self, drafts: Drafts) -> None:
        slots, counts = ints(drafts.slots), ints(drafts.counts)
        rows, ids = np.repeat(np.arange(len(slots)), counts), ints(drafts.token_ids)
        good = np.ones(len(slots), np.bool_)
        at = np.minimum(slots, self._slots - 1)
        checks = (
            ("slot", (at == slots) & (self._generation[at] == ints(drafts.generations))),
            ("stale", self._sampled[at] == drafts.after_step),
            ("held", ~self._final[at]),
            ("count", counts <= self._most),
            ("vocabulary", np.bincount(rows[ids >= self._vocab_size], minlength=len(slots)) == 0),
        )
        for reason, passed in checks:
            self.dropped[reason] += int(np.count_nonzero(good & ~passed))
            good &= passed
        self._store(slots[good], counts[good], ids[good[rows]])

    def _store(self, slots: Ints, counts: Ints, ids: Ints) -> None:
        if (wide := int(counts.max(initial=0))) > self._ids.shape[1]:
            self._ids = np.pad(self._ids, ((0, 0), (0, wide)))
        within = np.arange(len(ids)) - np.repeat(counts.cumsum() - counts, counts)
        self._ids[np.repeat(slots, counts), within] = ids
        self._count[slots] = counts


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
