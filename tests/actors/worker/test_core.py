"""Step order: every step of the newest epoch once, in order, and one question for each gap."""

from __future__ import annotations

from optimist.actors.worker.core import StepOrder, Verdict

RUN, DROP, ASK = Verdict.RUN, Verdict.DROP, Verdict.ASK


def verdicts(order: StepOrder, *steps: tuple[int, int]) -> list[Verdict]:
    return [order.judge(epoch, step) for epoch, step in steps]


def test_steps_in_order_run() -> None:
    assert verdicts(StepOrder(3), (3, 0), (3, 1), (3, 2)) == [RUN, RUN, RUN]


def test_a_step_that_ran_is_dropped() -> None:
    assert verdicts(StepOrder(3), (3, 0), (3, 1), (3, 0), (3, 1), (3, 2)) == [
        RUN, RUN, DROP, DROP, RUN,
    ]  # fmt: skip


def test_a_batch_older_than_the_worker_is_dropped() -> None:
    assert verdicts(StepOrder(3), (2, 0), (2, 1), (3, 0)) == [DROP, DROP, RUN]


def test_an_older_epoch_is_dropped_after_a_newer_one_was_seen() -> None:
    assert verdicts(StepOrder(3), (5, 0), (4, 0), (3, 0), (5, 1)) == [RUN, DROP, DROP, RUN]


def test_a_gap_is_asked_for_once_and_closes() -> None:
    order = StepOrder(3)
    assert verdicts(order, (3, 0), (3, 2), (3, 3)) == [RUN, ASK, DROP]
    assert order.step == 1
    assert verdicts(order, (3, 1), (3, 2), (3, 3)) == [RUN, RUN, RUN]
    assert order.dropped == 2


def test_the_next_gap_is_asked_for_again() -> None:
    assert verdicts(StepOrder(0), (0, 1), (0, 0), (0, 2), (0, 2)) == [ASK, RUN, ASK, DROP]


def test_a_new_epoch_that_begins_with_a_gap_is_asked_for_from_its_first_step() -> None:
    order = StepOrder(3)
    assert verdicts(order, (3, 1), (5, 1), (5, 2)) == [ASK, ASK, DROP]
    assert (order.epoch, order.step) == (5, 0)
