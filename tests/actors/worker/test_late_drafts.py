"""Which drafts a batch runs with, what it waits for, and what the proposer is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from optimist.actors.worker.base import Limits, Outcome
from optimist.actors.worker.core import Times
from optimist.actors.worker.desk import Desk
from optimist.actors.worker.late_drafts import SILENT, UNANSWERED, Lack
from optimist.messages.base import column, ints
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.drafting import Accepted, Drafts
from optimist.messages.errors import MailboxFull, MessageError
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.results import Capacity, StepResult
from optimist.messages.slots import BlockDelta, OpenedSlot, PrefillRows, Sampling

LIMITS = Limits(
    num_blocks=64,
    block_size=4,
    max_slots=4,
    max_model_len=64,
    max_batch_tokens=64,
    vocab_size=100,
)


class Sent:
    """A Ref that keeps what is sent, until it is full."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.full = False

    def send(self, message: Any, /) -> None:
        if self.full:
            raise MailboxFull("full")
        self.messages.append(message)


class Bench:
    """A desk with two requests in slots 0 and 1, whose prompts of 5 tokens are computed in step 0."""

    def __init__(self, *, exact: bool = False) -> None:
        self.scheduler, self.proposer = Sent(), Sent()
        self.desk = Desk(9, LIMITS, self.scheduler, self.proposer)
        self.exact = exact
        self.step = 0
        prefill = PrefillRows(
            slots=column([0, 1]),
            generations=column([3, 4]),
            starts=column([0, 0]),
            seq_lens=ExactSeqLens.of([5, 5]),
            samples=column([1, 1]),
        )
        opened = tuple(
            OpenedSlot(
                slot=slot,
                generation=3 + slot,
                request=slot,
                token_ids=column(range(5)),
                prompt_len=5,
                cached_len=0,
                sampling=Sampling(temperature=0.0, seed=0),
            )
            for slot in (0, 1)
        )
        self.batch([], opened=opened, prefill=prefill)
        due = self.desk.due()
        assert due is not None
        self.tell(due.batch, [[50], [60]])

    def batch(
        self,
        room: Sequence[int],
        *,
        opened: tuple[OpenedSlot, ...] = (),
        prefill: PrefillRows | None = None,
    ) -> None:
        """Put the next batch: so much room for drafts of slots 0 and 1."""
        decodes, prefill = len(room), prefill or PrefillRows()
        rows = column(range(decodes)) + prefill.slots
        lens = ExactSeqLens.of([5] * (len(rows) // 4))
        fields: dict[str, Any] = {
            "incarnation": 2,
            "epoch": 7,
            "step": self.step,
            "opened": opened,
            "blocks": BlockDelta(version=self.step + 1),
            "slots": rows,
            "generations": column(range(3, 3 + decodes)) + prefill.generations,
            "num_decodes": decodes,
            "draft_counts": column(room),
        }
        if self.exact:
            starts = column(range(len(rows) // 4 + 1))
            samples = column([1] * (len(rows) // 4))
            batch: Batch = ExactBatch(
                **fields, query_start_loc=starts, seq_lens=lens, samples=samples
            )
        else:
            batch = OptimisticBatch(
                **fields, bound=SeqLensUpperBound.of([20] * decodes), prefill=prefill
            )
        self.step += 1
        self.desk.put(batch)

    def tell(self, batch: Batch, tokens: Sequence[Sequence[int]]) -> None:
        """The step brought these tokens of slots 0 and 1."""
        outcome = Outcome(
            slots=np.arange(2, dtype=np.int32),
            generations=np.array([3, 4], np.int32),
            token_counts=np.array([len(row) for row in tokens], np.int32),
            token_ids=np.array([token for row in tokens for token in row], np.int32),
            drafts_run=np.array([len(row) - 1 for row in tokens], np.int32),
            logprobs=None,
        )
        self.desk.tell(batch, outcome, Times(10))

    def drafts(self, after: int, rows: dict[int, list[int]], **changes: Any) -> None:
        """Drafts by slot came."""
        fields: dict[str, Any] = {
            "incarnation": 5,
            "epoch": 7,
            "after_step": after,
            "slots": column(rows),
            "generations": column(3 + slot for slot in rows),
            "counts": column(len(ids) for ids in rows.values()),
            "token_ids": column(token for ids in rows.values() for token in ids),
        }
        self.desk.take(Drafts(**(fields | changes)))

    def bound(self, *, give_up: bool = False) -> tuple[list[int], list[int]] | None:
        """Counts and ids of the drafts of the batch that is due."""
        due = self.desk.due(give_up=give_up)
        if due is None:
            return None
        assert due.drafts is not None
        return due.drafts.counts.tolist(), due.drafts.ids.tolist()

    @property
    def dropped(self) -> dict[str, int]:
        assert self.desk.late is not None
        return {reason: count for reason, count in self.desk.late.dropped.items() if count}


def test_a_batch_waits_for_the_drafts_behind_the_step_before_it() -> None:
    bench = Bench()
    bench.batch([3, 3])
    assert bench.desk.lacks() is Lack.DRAFTS and bench.bound() is None
    bench.drafts(0, {1: [7, 8]})
    assert bench.desk.lacks() is Lack.NOTHING
    assert bench.bound() == ([0, 2], [7, 8])


def test_drafts_are_trimmed_to_the_room_of_their_row() -> None:
    bench = Bench()
    bench.batch([1, 2])
    bench.drafts(0, {0: [1, 2, 3], 1: [4, 5, 6]})
    assert bench.bound() == ([1, 2], [1, 4, 5])


def test_whoever_gives_up_runs_without_drafts_and_late_ones_are_stale() -> None:
    bench = Bench()
    bench.batch([3, 3])
    assert bench.bound(give_up=True) == ([0, 0], [])
    bench.drafts(0, {0: [1], 1: [2]})
    assert bench.dropped == {"stale": 2}


def test_a_batch_without_room_for_drafts_waits_for_nothing() -> None:
    bench = Bench()
    bench.batch([0, 0])
    assert bench.bound() == ([0, 0], [])


def test_a_batch_behind_a_step_whose_tokens_are_unknown_waits_for_these_however_long() -> None:
    bench = Bench()
    bench.batch([0, 0])
    first = bench.desk.due()
    bench.batch([3, 3])
    assert bench.desk.lacks() is Lack.RESULT and bench.bound(give_up=True) is None
    assert first is not None
    bench.tell(first.batch, [[51], [61]])
    assert bench.desk.lacks() is Lack.DRAFTS


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"epoch": 6}, "epoch"),
        ({"epoch": 8}, "epoch"),
        ({"after_step": 1}, "step"),
        ({"generations": column([4])}, "slot"),
        ({"slots": column([2**31 - 1])}, "slot"),
        ({"slots": column([3])}, "slot"),
        ({"token_ids": column([100])}, "vocabulary"),
        ({"counts": column([65]), "token_ids": column([1] * 65)}, "count"),
    ],
)
def test_lies_are_left_out_and_counted(changes: dict[str, Any], reason: str) -> None:
    bench = Bench()
    bench.batch([3, 3])
    bench.drafts(0, {0: [9]}, **changes)
    assert bench.dropped == {reason: 1}
    bench.drafts(0, {1: [8]})
    assert bench.bound() == ([0, 1], [8])


def test_the_proposer_is_told_what_was_accepted_behind_what_and_how_much_is_wanted() -> None:
    bench = Bench()
    bench.batch([2, 3])
    bench.drafts(0, {0: [7], 1: [8]})
    due = bench.desk.due()
    bench.batch([1, 0])
    assert due is not None
    bench.tell(due.batch, [[7, 51], [61]])
    first, second = (m for m in bench.proposer.messages if isinstance(m, Accepted))
    assert ints(first.starts).tolist() == [5, 5] and ints(first.wanted).tolist() == [64, 64]
    assert (second.after_step, ints(second.token_ids).tolist()) == (1, [7, 51, 61])
    assert ints(second.starts).tolist() == [6, 6] and ints(second.wanted).tolist() == [1, 0]


def test_nobody_waits_for_a_proposer_that_has_been_silent_until_it_speaks() -> None:
    bench = Bench()
    for _ in range(SILENT):
        bench.batch([3, 3])
        assert bench.desk.lacks() is Lack.DRAFTS
        due = bench.desk.due(give_up=True)
        assert due is not None
        bench.tell(due.batch, [[1], [2]])
    bench.batch([3, 3])
    assert bench.desk.lacks() is Lack.NOTHING
    bench.drafts(SILENT, {0: [5]})
    assert bench.bound() == ([1, 0], [5])
    bench.batch([3, 3])
    assert bench.desk.lacks() is Lack.RESULT


def test_a_proposer_that_does_not_answer_is_told_of_no_more_until_it_asks() -> None:
    bench = Bench()
    for _ in range(UNANSWERED + 9):
        bench.batch([0, 0])
        due = bench.desk.due()
        assert due is not None
        bench.tell(due.batch, [[1], [2]])
    assert len(bench.proposer.messages) == UNANSWERED
    bench.desk.greet()
    assert isinstance(bench.proposer.messages[-1], Capacity)
    bench.batch([0, 0])
    due = bench.desk.due()
    assert due is not None
    bench.tell(due.batch, [[1], [2]])
    assert len(bench.proposer.messages) == UNANSWERED + 2


def test_a_proposer_whose_inbox_is_full_is_not_waited_for() -> None:
    bench = Bench()
    bench.batch([0, 0])
    due = bench.desk.due()
    bench.proposer.full = True
    assert due is not None
    bench.tell(due.batch, [[1], [2]])
    bench.batch([3, 3])
    assert bench.bound() == ([0, 0], [])


def test_the_result_of_an_exact_step_waits_for_drafts_and_says_how_many_there_are() -> None:
    bench = Bench(exact=True)
    assert bench.desk.holds() and bench.scheduler.messages == []
    bench.drafts(0, {1: [7, 8]})
    bench.desk.report()
    (result,) = bench.scheduler.messages
    assert isinstance(result, StepResult) and ints(result.drafts_held).tolist() == [0, 2]
    bench.drafts(0, {0: [1], 1: [2]})
    assert bench.dropped == {"held": 2}
    bench.batch([0, 1])
    assert bench.bound() == ([0, 1], [7])


def test_an_exact_result_whose_drafts_do_not_come_is_sent_without() -> None:
    bench = Bench(exact=True)
    bench.desk.report()
    assert bench.desk.holds()
    bench.desk.report(give_up=True)
    (result,) = bench.scheduler.messages
    assert ints(result.drafts_held).tolist() == [0, 0]


def test_an_exact_batch_that_counts_on_more_drafts_than_there_are_is_refused() -> None:
    bench = Bench(exact=True)
    bench.desk.report(give_up=True)
    bench.batch([0, 1])
    with pytest.raises(MessageError, match="expected at most 0 in slot 1, got 1"):
        bench.desk.due()
