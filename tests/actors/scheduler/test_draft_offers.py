"""Drafts are expected only as often as a proposer has had some, but waited for each time."""

from __future__ import annotations

import numpy as np
import pytest

from optimist.actors.scheduler.draft_length import DraftLength
from optimist.actors.scheduler.shares import Shares
from optimist.actors.scheduler.slots import Ints
from optimist.actors.scheduler.step_cost import DraftCost


def simulated(length: DraftLength | int, offers: float, rate: float, rows: int) -> float:
    """Times as fast as without drafts, over 1,500 steps.

    A step takes 7 ms, 70 us for each token, and 1 ms where drafts are waited for. offers: how often a
    row has some. rate: of drafts that are right. length: fixed or adapted.
    """
    rng = np.random.default_rng(5)
    slots, room, tokens, took = np.arange(rows), np.full(rows, 100, np.int32), 0, 0
    for _ in range(1500):
        wanted = (
            length.lengths(slots, room) if isinstance(length, DraftLength) else room * 0 + length
        )
        drafts: Ints = np.where(rng.random(rows) < offers, wanted, 0).astype(np.int32)
        right = (rng.random((rows, 16)) < rate).cumprod(1).sum(1)
        run = np.minimum(right, drafts).astype(np.int32)
        step_us = int(7_000 + 70 * (rows + drafts.sum()))
        waited = 1_000 if wanted.any() else None
        if isinstance(length, DraftLength):
            length.settle(slots, drafts, run, wanted)
            length.ran(rows + int(drafts.sum()), step_us, drafts, waited)
        tokens, took = tokens + rows + int(run.sum()), took + step_us + (waited or 0)
    return tokens / took / rows * (7_000 + 70 * rows)


@pytest.mark.parametrize(("offers", "rate"), [(0.05, 0.5), (0.2, 0.3), (0.3, 0.4)])
def test_what_is_seldom_there_is_seldom_waited_for(offers: float, rate: float) -> None:
    assert simulated(1, offers, rate, 8) < 0.97
    assert simulated(DraftLength(8, "auto"), offers, rate, 8) > 0.98


@pytest.mark.parametrize("rows", [1, 8])
def test_what_is_often_there_is_waited_for(rows: int) -> None:
    assert simulated(DraftLength(rows, "auto"), 0.6, 0.8, rows) > 0.9 * simulated(4, 0.6, 0.8, rows)


def test_a_share_is_that_of_the_last_times_and_at_first_the_usual_one() -> None:
    shares, none = Shares(3, trust=2.0, first=1.0), np.zeros(2, np.int32)
    assert shares.of(np.arange(2)).tolist() == [0.999] * 2
    for _ in range(200):
        shares.add(np.arange(2), none + 1, none)
    assert (shares.of(np.arange(3)) < 0.2).all()
    for _ in range(12):
        shares.add(np.array([0]), none[:1] + 1, none[:1] + 1)
    first, second, third = shares.of(np.arange(3))
    assert first > 0.5 > third > second
    shares.open(0)
    assert shares.of(np.arange(3))[0] == third


def test_one_wild_wait_does_not_end_all_attempts() -> None:
    cost, none, one = DraftCost(passes=False), np.array([0, 4]), np.array([0, 1])
    for _ in range(20):
        cost.ran(8, 7_000, 0, 0)
        cost.ran(12, 7_300, 4, 1)
    cost.waited(500_000)
    without, wildly = cost.of(8, none, one)
    assert wildly < 1.3 * without
    for _ in range(30):
        cost.waited(400)
    settled = float(cost.of(8, none, one)[1])
    cost.waited(500_000)
    assert float(cost.of(8, none, one)[1]) < 1.02 * settled


def test_waits_that_grow_are_believed_after_a_while() -> None:
    cost, none, one = DraftCost(passes=False), np.array([0, 4]), np.array([0, 1])
    cost.ran(8, 7_000, 0, 0)
    for wait in (*[300] * 20, *[5_000] * 60):
        cost.waited(wait)
    without, with_drafts = cost.of(8, none, one)
    assert with_drafts - without > 4_900
