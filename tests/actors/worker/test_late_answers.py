"""How long, how often and for what answers of a proposer are waited for."""

from __future__ import annotations

import pytest
from draft_desk import Bench

from optimist.actors.worker.answers_due import AGAIN, SILENT
from optimist.actors.worker.late_drafts import Lack
from optimist.actors.worker.patience import Patience
from optimist.messages.results import StepResult


def late_by_one_step(bench: Bench, batches: int) -> int:
    """How many batches waited for drafts that came when they had gone."""
    waits = 0
    for _ in range(batches):
        bench.batch([3, 3])
        waits += bench.desk.lacks() is Lack.DRAFTS
        due = bench.desk.due(give_up=True)
        assert due is not None
        bench.drafts(due.batch.step - 1, {0: [5], 1: [6]})
        bench.tell(due.batch, [[1], [2]])
    return waits


def test_a_proposer_that_always_answers_too_late_is_waited_for_once_in_a_while_alone() -> None:
    bench = Bench()
    assert late_by_one_step(bench, 3 * AGAIN) == SILENT + 2
    assert set(bench.dropped) == {"stale"}


def test_a_proposer_that_answers_in_time_again_is_waited_for_again() -> None:
    bench = Bench()
    late_by_one_step(bench, AGAIN)
    bench.batch([3, 3])
    assert bench.desk.lacks() is Lack.DRAFTS
    bench.drafts(AGAIN, {})
    due = bench.desk.due()
    assert due is not None
    bench.tell(due.batch, [[1], [2]])
    bench.batch([3, 3])
    assert bench.desk.lacks() is Lack.DRAFTS


def test_how_long_drafts_are_waited_for_is_a_share_of_a_step_without_prompts() -> None:
    bench, patience = Bench(), Patience(0.5)
    bench.batch([3, 3])
    decode = bench.desk.due(give_up=True)
    bench.open(epoch=8)
    prompts = bench.desk.due(give_up=True)
    assert decode is not None and prompts is not None
    for _ in range(50):
        patience.ran(decode.batch, 3000)
    patience.ran(prompts.batch, 100_000)
    assert patience.seconds == pytest.approx(0.0015, rel=0.01)


def test_an_exact_result_of_an_epoch_that_is_over_keeps_no_slot_from_its_drafts() -> None:
    bench = Bench(exact=True)
    assert bench.desk.holds()
    bench.open(epoch=8)
    due = bench.desk.due()
    assert due is not None
    bench.desk.report()
    (result,) = bench.scheduler.messages
    assert isinstance(result, StepResult) and (result.epoch, result.drafts_held) == (7, b"")
    bench.tell(due.batch, [[51], [61]])
    bench.drafts(0, {0: [1], 1: [2]})
    assert not bench.dropped
