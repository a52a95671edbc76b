"""Which drafts a batch runs with, what it waits for, and what the proposer is told."""

from __future__ import annotations

from typing import Any

import pytest
from draft_desk import Bench, told

from optimist.actors.worker.answers_due import SILENT, UNANSWERED
from optimist.actors.worker.desk import Due
from optimist.actors.worker.late_drafts import Lack
from optimist.actors.worker.untold import FEW, MANY
from optimist.messages.base import column, ints
from optimist.messages.results import Capacity


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
    bench.batch([1, 2])
    assert due is not None
    bench.tell(due.batch, [[7, 51], [61]])
    first, second = told(bench)
    assert ints(first.starts).tolist() == [5, 5] and ints(first.wanted).tolist() == [64, 64]
    assert (second.after_step, ints(second.token_ids).tolist()) == (1, [7, 51, 61])
    assert ints(second.starts).tolist() == [6, 6] and ints(second.wanted).tolist() == [1, 2]


def test_of_a_slot_that_wants_no_drafts_it_is_told_when_it_wants_some() -> None:
    bench = Bench()
    bench.batch([0, 2])
    due = bench.desk.due(give_up=True)
    for token in range(3):
        bench.batch([0, 2] if token < 2 else [3, 2])
        assert due is not None
        bench.tell(due.batch, [[token], [10 + token]])
        due = bench.desk.due(give_up=True)
    *before, last = told(bench)
    assert [ints(message.slots).tolist() for message in before] == [[0, 1], [1], [1]]
    assert ints(last.starts).tolist() == [6, 8] and ints(last.counts).tolist() == [3, 1]
    assert ints(last.token_ids).tolist() == [0, 1, 2, 12]


def ahead(bench: Bench, room: list[int]) -> Due:
    """The next batch goes to the device, whatever runs there."""
    bench.batch(room)
    due = bench.desk.due()
    assert due is not None
    return due


TOLD = [FEW, 2 * FEW, MANY, MANY]
"""tokens that are told at once of a request that wants no drafts: first few, then many"""


def test_of_a_slot_that_never_wants_any_it_is_told_many_tokens_at_once() -> None:
    bench = Bench()
    due = ahead(bench, [0, 0])
    for token in range(sum(TOLD)):
        following = ahead(bench, [0, 0])
        bench.tell(due.batch, [[token], [token]])
        due = following
    _, *more = told(bench)
    assert [ints(message.counts).tolist() for message in more] == [[many] * 2 for many in TOLD]
    assert not any(ints(message.wanted).any() for message in more)
    assert ints(more[1].starts).tolist() == [6 + FEW] * 2


def test_a_slot_beside_one_that_always_wants_drafts_is_told_of_too() -> None:
    bench = Bench()
    for token in range(sum(TOLD)):
        bench.batch([0, 2])
        due = bench.desk.due(give_up=True)
        assert due is not None
        bench.tell(due.batch, [[token], [token]])
    both = [message for message in told(bench)[1:] if ints(message.slots).tolist() == [0, 1]]
    assert [ints(message.counts).tolist() for message in both] == [[many, 1] for many in TOLD]


def test_a_batch_without_room_goes_to_the_device_before_the_tokens_of_the_step_before_are_known() -> (
    None
):
    bench = Bench()
    first = ahead(bench, [0, 0])
    second = ahead(bench, [0, 0])
    before = len(told(bench))
    bench.tell(first.batch, [[51], [61]])
    bench.batch([3, 3])
    assert bench.desk.lacks() is Lack.RESULT and len(told(bench)) == before
    bench.tell(second.batch, [[52], [62]])
    assert bench.desk.lacks() is Lack.DRAFTS
    assert ints(told(bench)[-1].token_ids).tolist() == [51, 52, 61, 62]


def test_a_batch_that_comes_late_and_has_room_is_asked_for_when_it_comes() -> None:
    bench = Bench()
    first = ahead(bench, [0, 0])
    before = len(told(bench))
    bench.tell(first.batch, [[51], [61]])
    assert len(told(bench)) == before
    bench.batch([0, 3])
    (asked,) = told(bench)[before:]
    assert (asked.after_step, ints(asked.slots).tolist(), ints(asked.wanted).tolist()) == (
        1,
        [1],
        [3],
    )
    assert bench.desk.lacks() is Lack.DRAFTS


def test_a_batch_that_comes_late_is_expected_to_have_room_where_the_one_before_had() -> None:
    bench = Bench()
    bench.batch([2, 0])
    due = bench.desk.due(give_up=True)
    assert due is not None
    bench.tell(due.batch, [[51], [61]])
    assert ints(told(bench)[-1].slots).tolist() == [0]
    assert ints(told(bench)[-1].wanted).tolist() == [64]


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


def test_nobody_waits_for_a_proposer_that_has_died_nor_is_it_told_until_one_lives_again() -> None:
    bench = Bench()
    bench.batch([3, 3])
    assert bench.desk.lacks() is Lack.DRAFTS
    bench.desk.bury()
    due, told = bench.desk.due(), len(bench.proposer.messages)
    assert due is not None
    bench.batch([3, 3])
    bench.tell(due.batch, [[1], [2]])
    assert bench.desk.lacks() is Lack.NOTHING and len(bench.proposer.messages) == told
    bench.desk.greet()
    due = bench.desk.due()
    assert due is not None
    bench.batch([3, 3])
    bench.tell(due.batch, [[1], [2]])
    assert bench.desk.lacks() is Lack.DRAFTS


def test_a_proposer_that_does_not_answer_is_told_of_no_more_until_it_asks() -> None:
    bench = Bench()
    for _ in range(UNANSWERED + 9):
        bench.batch([1, 1])
        due = bench.desk.due(give_up=True)
        assert due is not None
        bench.tell(due.batch, [[1], [2]])
    assert len(bench.proposer.messages) == UNANSWERED
    bench.desk.greet()
    assert isinstance(bench.proposer.messages[-1], Capacity)
    bench.batch([1, 1])
    due = bench.desk.due(give_up=True)
    assert due is not None
    bench.tell(due.batch, [[1], [2]])
    assert len(bench.proposer.messages) == UNANSWERED + 2


def test_a_proposer_whose_inbox_is_full_is_not_waited_for() -> None:
    bench = Bench()
    bench.batch([1, 1])
    due = bench.desk.due(give_up=True)
    bench.proposer.full = True
    assert due is not None
    bench.tell(due.batch, [[1], [2]])
    bench.batch([3, 3])
    assert bench.bound() == ([0, 0], [])
