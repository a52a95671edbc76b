"""Results of exact steps, which wait for the drafts that are wanted behind them, and for no others; and of
steps behind which a batch waits for drafts."""

from __future__ import annotations

import pytest
from draft_desk import Bench, told

from optimist.actors.worker.untold import FEW, MANY
from optimist.messages.base import ints
from optimist.messages.errors import MessageError
from optimist.messages.results import StepResult


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


def test_an_exact_result_behind_which_no_drafts_are_wanted_waits_for_none_and_none_are_made() -> (
    None
):
    bench = Bench(exact=True, wanted=(0, 0))
    (result,) = bench.scheduler.messages
    assert ints(result.drafts_held).tolist() == [0, 0] and told(bench) == []


def test_only_slots_that_want_drafts_are_told_of_behind_an_exact_step() -> None:
    bench = Bench(exact=True, wanted=(0, 2))
    (asked,) = told(bench)
    assert ints(asked.slots).tolist() == [1] and ints(asked.wanted).tolist() == [2]


def test_no_more_drafts_are_said_to_be_there_than_were_wanted_behind_an_exact_step() -> None:
    bench = Bench(exact=True, wanted=(0, 2))
    bench.drafts(0, {0: [5], 1: [7, 8, 9]})
    bench.desk.report()
    (result,) = bench.scheduler.messages
    assert ints(result.drafts_held).tolist() == [0, 2]
    bench.batch([0, 2])
    assert bench.bound() == ([0, 2], [7, 8])


def test_tokens_told_for_want_of_nothing_hold_no_exact_result_back() -> None:
    bench = Bench(exact=True, wanted=(0, 0))
    steps = FEW + 2 * FEW + MANY
    for token in range(steps):
        bench.batch([0, 0])
        due = bench.desk.due()
        assert due is not None
        bench.tell(due.batch, [[token], [token]])
    assert len(told(bench)) == 3 and len(bench.scheduler.messages) == 1 + steps
    assert bench.desk.late is not None and bench.desk.late.due.silent == 0


def test_an_exact_batch_that_counts_on_more_drafts_than_there_are_is_refused() -> None:
    bench = Bench(exact=True)
    bench.desk.report(give_up=True)
    bench.batch([0, 1])
    with pytest.raises(MessageError, match="expected at most 0 in slot 1, got 1"):
        bench.desk.due()


def test_the_result_behind_which_a_batch_waits_for_drafts_is_sent_when_that_goes_to_the_device() -> (
    None
):
    bench = Bench()
    bench.batch([0, 0])
    first = bench.desk.due()
    bench.batch([3, 3])
    assert first is not None and [one.step for one in bench.scheduler.messages] == [0]
    bench.tell(first.batch, [[51], [61]])
    assert bench.desk.due() is None and len(bench.scheduler.messages) == 1
    bench.drafts(1, {0: [7]})
    assert bench.bound() == ([1, 0], [7]) and len(bench.scheduler.messages) == 1
    bench.desk.went()
    assert [one.step for one in bench.scheduler.messages] == [0, 1]


def test_a_result_goes_out_with_a_batch_that_has_waited_long_enough() -> None:
    bench = Bench()
    bench.batch([0, 0])
    first = bench.desk.due()
    bench.batch([3, 3])
    assert first is not None
    bench.tell(first.batch, [[51], [61]])
    bench.bound(give_up=True)
    bench.desk.went()
    assert [one.step for one in bench.scheduler.messages] == [0, 1]
