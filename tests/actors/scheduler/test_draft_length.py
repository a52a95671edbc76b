"""How many drafts a row gets, from what was accepted and what steps took."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from optimist.actors.config import AUTO_DRAFTS, DraftTokens
from optimist.actors.scheduler.acceptance import Acceptance, Totals
from optimist.actors.scheduler.draft_length import (
    LONGEST_PAUSE,
    PROBE,
    SELDOM,
    TOGETHER,
    DraftLength,
)
from optimist.actors.scheduler.slots import Ints
from optimist.actors.scheduler.step_cost import StepCost


def column(*values: int) -> Ints:
    return np.array(values, np.int32)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([([3], [3])], Totals(1, 3, 3, (1, 1, 1))),
        ([([3], [1])], Totals(1, 3, 1, (1, 0, 0))),
        ([([2, 1], [2, 1])], Totals(2, 3, 3, (2, 1))),
        ([([1], [1])], Totals(1, 1, 1, (1,))),
        ([([0], [0])], Totals()),
        ([([3, 3], [2, 1])], Totals(2, 6, 3, (2, 1, 0))),
        ([([1], [1]), ([3], [2]), ([0], [0])], Totals(2, 4, 3, (2, 1, 0))),
    ],
)
def test_totals_count_rows_drafts_and_positions(
    steps: list[tuple[list[int], list[int]]], expected: Totals
) -> None:
    acceptance = Acceptance(4)
    for drafted, accepted in steps:
        acceptance.settle(np.arange(len(drafted)), column(*drafted), column(*accepted))
    assert acceptance.totals() == expected
    assert acceptance.totals().accepted == sum(acceptance.totals().per_position)


def test_acceptance_length_counts_the_bonus_token() -> None:
    assert Totals().acceptance_length == 1
    assert Totals(2, 6, 3, (2, 1, 0)).acceptance_length == 2.5


def test_a_new_request_is_taken_for_a_usual_one() -> None:
    acceptance = Acceptance(2)
    for _ in range(200):
        acceptance.settle(np.array([0]), column(4), column(0))
    acceptance.open(1)
    usual = acceptance.rates(np.array([0, 1]))
    assert usual[1] < 0.1 and abs(usual[0] - usual[1]) < 0.05
    for _ in range(3):
        acceptance.settle(np.array([1]), column(4), column(4))
    assert acceptance.rates(np.array([1]))[0] > 0.8


def test_a_slot_forgets_the_request_before() -> None:
    acceptance = Acceptance(1)
    before = acceptance.rates(np.array([0]))[0]
    acceptance.settle(np.array([0]), column(8), column(0))
    acceptance.open(0)
    assert abs(acceptance.rates(np.array([0]))[0] - before) < 0.4


def test_the_cost_of_a_step_is_learnt_and_goes_on_between_and_beyond() -> None:
    cost = StepCost()
    for _ in range(60):
        for tokens in (1, 8, 64):
            cost.ran(tokens, 1000 + 100 * tokens)
    one, four, eight, many = cost.of(np.array([1, 4, 8, 256]))
    assert one < four < eight < many
    assert eight / one == pytest.approx(1800 / 1100, rel=0.05)


def test_more_tokens_never_seem_cheaper() -> None:
    cost = StepCost()
    cost.ran(4, 5000)
    cost.ran(8, 100)
    found = cost.of(np.arange(1, 32))
    assert (np.diff(found) >= 0).all() and (found > 0).all()


def test_one_wild_step_does_not_change_everything() -> None:
    cost = StepCost()
    for _ in range(50):
        cost.ran(2, 1000)
    before = float(cost.of(np.array([2]))[0])
    cost.ran(2, 100_000)
    assert float(cost.of(np.array([2]))[0]) < 1.2 * before


def test_steps_without_a_time_say_nothing() -> None:
    cost = StepCost()
    assumed = cost.of(np.array([1, 16, 32]))
    cost.ran(5, 0)
    cost.ran(0, 5)
    assert np.array_equal(cost.of(np.array([1, 16, 32])), assumed)


def drive(
    length: DraftLength, rate: float, per_token: float, rows: int, steps: int = 200
) -> list[Ints]:
    """Steps in which each draft is right with this probability; returns the lengths planned."""
    rng = np.random.default_rng(7)
    slots, room, planned = np.arange(rows), np.full(rows, 64, np.int32), list[Ints]()
    for _ in range(steps):
        drafts = length.lengths(slots, room)
        right = rng.random((rows, max(1, int(drafts.max())))) < rate
        run = np.minimum(right.cumprod(1).sum(1), drafts).astype(np.int32)
        length.settle(slots, drafts, run)
        tokens = rows + int(drafts.sum())
        length.ran(tokens, int(1000 + per_token * tokens), drafts)
        planned.append(drafts)
    return planned


def speed(planned: list[Ints], rate: float, per_token: float) -> float:
    """Tokens that these lengths give for a microsecond, on average, once there was time to learn."""
    late = planned[len(planned) // 2 :]
    tokens = sum(float((rate ** np.arange(d + 1)).sum()) for drafts in late for d in drafts)
    return tokens / sum(1000 + per_token * float((1 + drafts).sum()) for drafts in late)


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("per_token", [10.0, 60.0, 250.0])
@pytest.mark.parametrize("rows", [1, 8, 32])
def test_it_comes_near_the_best_fixed_length_and_never_costs_much(
    rate: float, per_token: float, rows: int
) -> None:
    planned = drive(DraftLength(rows, "auto"), rate, per_token, rows, steps=400)
    fixed = [
        speed([np.full(rows, drafts, np.int32)], rate, per_token)
        for drafts in range(AUTO_DRAFTS + 1)
    ]
    found = speed(planned, rate, per_token)
    assert found > 0.85 * max(fixed)
    assert found > 0.97 * fixed[0]


@pytest.mark.parametrize(
    ("rate", "per_token"), [(0.02, 100.0), (0.3, 2000.0)], ids=["never right", "dear"]
)
def test_where_it_does_not_pay_there_are_only_probes(rate: float, per_token: float) -> None:
    planned = drive(DraftLength(1, "auto"), rate, per_token, 1, steps=1000)[500:]
    with_drafts = sum(bool(drafts.any()) for drafts in planned)
    assert 0 < with_drafts < len(planned) / 8
    assert max(int(drafts.max()) for drafts in planned) <= 2


def test_large_batches_get_fewer_drafts_than_small_ones() -> None:
    few, many = (drive(DraftLength(rows, "auto"), 0.6, 30.0, rows)[100:] for rows in (1, 48))
    assert np.mean([drafts.mean() for drafts in many]) < np.mean([drafts.mean() for drafts in few])


def test_failed_probes_become_rarer_and_a_right_one_brings_drafts_back() -> None:
    length = DraftLength(1, "auto")
    for _ in range(40):
        for tokens, took in ((1, 1000), (2, 1200), (4, 1600)):
            length.ran(tokens, took, column(tokens - 1))
    slot, room = np.array([0]), column(8)
    probes = []
    for step in range(300):
        drafts = length.lengths(slot, room)
        length.settle(slot, drafts, np.zeros_like(drafts))
        if drafts.any():
            probes.append(step)
    pauses = np.diff(probes[2:])
    assert pauses.max() <= LONGEST_PAUSE + TOGETHER and pauses[-1] >= LONGEST_PAUSE
    assert not (pauses % TOGETHER).any()
    for _ in range(3 * LONGEST_PAUSE):
        drafts = length.lengths(slot, room)
        length.settle(slot, drafts, drafts)
    assert length.lengths(slot, room)[0] > PROBE


def test_a_probe_for_which_there_were_no_drafts_is_tried_again_with_the_next_probes() -> None:
    length = DraftLength(1, "auto")
    slot, room = np.array([0]), column(8)
    for _ in range(60):
        length.ran(1, 1000, column(0))
        length.ran(2, 1150, column(1))
        length.settle(slot, column(4), column(0))
    found = [int(length.lengths(slot, room)[0]) for _ in range(LONGEST_PAUSE + 3 * TOGETHER)]
    assert found[:LONGEST_PAUSE] == [0] * LONGEST_PAUSE
    assert sum(found[LONGEST_PAUSE:]) == 3 * PROBE


def test_rows_without_drafts_are_asked_in_the_same_steps_and_at_once_when_there_are_some() -> None:
    length = DraftLength(3, "auto")
    slots, room, none = np.arange(3), np.full(3, 8, np.int32), np.zeros(3, np.int32)
    for _ in range(5 * SELDOM):
        length.settle(slots, none, none, length.lengths(slots, room))
    planned = [length.lengths(slots, room) for _ in range(4 * SELDOM)]
    asked = np.array([drafts > 0 for drafts in planned])
    assert asked.any(1).sum() == asked.all(1).sum() == 4
    length.settle(slots, column(8, 0, 0), column(8, 0, 0), room)
    found = [length.lengths(slots, room) for _ in range(SELDOM)]
    assert all(drafts[0] > 0 for drafts in found)
    assert sum(drafts[1] > 0 for drafts in found) == 1


@pytest.mark.parametrize("draft_tokens", [0, 3])
def test_a_fixed_length_is_never_adapted(draft_tokens: int) -> None:
    length = DraftLength(2, draft_tokens)
    for drafts in drive(length, 0.0, 1000.0, 2, steps=30):
        assert drafts.tolist() == [draft_tokens] * 2


@pytest.mark.parametrize("draft_tokens", [5, "auto"])
def test_no_row_gets_more_than_it_has_room_for(draft_tokens: DraftTokens) -> None:
    length = DraftLength(3, draft_tokens)
    found = length.lengths(np.arange(3), column(0, 2, 64))
    assert found[0] == 0 and found[1] <= 2 and found[2] <= length.most


def test_no_rows_no_lengths() -> None:
    assert DraftLength(3, "auto").lengths(np.arange(0), column()).size == 0


def test_each_row_is_judged_by_its_own_acceptance() -> None:
    length, slots = DraftLength(2, "auto"), np.arange(2)
    for _ in range(30):
        drafts = length.lengths(slots, column(16, 16))
        length.settle(slots, drafts, drafts * column(1, 0))
        length.ran(2 + int(drafts.sum()), 1000 + 50 * (2 + int(drafts.sum())), drafts)
    good, bad = length.lengths(slots, column(16, 16)).tolist()
    assert good > 8 and bad <= PROBE


def simulated(
    length: DraftLength | int, rate: float, passes: float, wait: float, phases: list[int]
) -> list[float]:
    """Times as fast as without drafts, in each phase of 400 steps with so many rows.

    A step takes 10 ms, 50 us for each token, `passes` times 10 ms for each draft of the row with most,
    and `wait` times 10 ms where there are any. rate: of drafts that are right. length: fixed or adapted.
    """
    rng, found = np.random.default_rng(3), list[float]()
    for rows in phases:
        slots, room = np.arange(rows), np.full(rows, 100, np.int32)
        tokens, took = 0, 0
        if isinstance(length, DraftLength):
            for slot in range(rows):
                length.open(slot)
        for _ in range(400):
            drafts = (
                length.lengths(slots, room)
                if isinstance(length, DraftLength)
                else 0 * room + length
            )
            right = (rng.random((rows, 16)) < rate).cumprod(1).sum(1)
            run = np.minimum(right, drafts).astype(np.int32)
            step_us = int(10_000 + 50 * (rows + drafts.sum()) + passes * 10_000 * drafts.max())
            waited = int(wait * 10_000) if drafts.any() else None
            if isinstance(length, DraftLength):
                length.settle(slots, drafts, run, drafts)
                length.ran(rows + int(drafts.sum()), step_us, drafts, waited)
            tokens, took = tokens + rows + int(run.sum()), took + step_us + (waited or 0)
        found.append(tokens / took / rows * (10_000 + 50 * rows))
    return found


@pytest.mark.parametrize(("rate", "passes"), [(0.3, 0.25), (0.5, 0.3), (0.8, 0.4)])
@pytest.mark.parametrize("phases", [[8, 8], [1, 8, 1, 8]], ids=["steady", "changing"])
def test_drafts_that_cost_a_pass_each_are_as_many_as_pay(
    rate: float, passes: float, phases: list[int]
) -> None:
    found = simulated(DraftLength(8, "auto", passes=True), rate, passes, 0.0, phases)
    fixed = [simulated(drafts, rate, passes, 0.0, phases) for drafts in (0, 1, 2, 3)]
    for auto, *others in list(zip(found, *fixed, strict=True))[1:]:
        assert auto > 0.95 * max(others)


@pytest.mark.parametrize("rate", [0.1, 0.25])
@pytest.mark.parametrize("rows", [1, 8])
def test_drafts_that_are_waited_for_cost_the_wait(rate: float, rows: int) -> None:
    found = simulated(DraftLength(rows, "auto"), rate, 0.0, 0.4, [rows, rows])
    assert found[1] > 0.98


def plan_twice(make: Callable[[], DraftLength]) -> tuple[list[Ints], list[Ints]]:
    return drive(make(), 0.7, 40.0, 4, 50), drive(make(), 0.7, 40.0, 4, 50)


def test_the_same_history_gives_the_same_lengths() -> None:
    first, second = plan_twice(lambda: DraftLength(4, "auto"))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
