"""The supervision policy, without a process, a task or a clock."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.actors.runtime.policy import (
    Backoff,
    Branch,
    Budget,
    GiveUp,
    Policy,
    Restart,
    StopStep,
    Tree,
    stop_order,
)
from optimist.messages.errors import ConfigError

NAMES = ("worker", "builder", "scheduler", "gateway")
BUDGET = Budget(3, 30.0)


def tree(
    strategy: Literal["one_for_one", "rest_for_one"] = "one_for_one",
    budget: Budget = BUDGET,
) -> Tree:
    branches = tuple(Branch(name, 5.0, restarts=name != "gateway") for name in NAMES)
    return Tree(branches, budget, strategy, Backoff(first=0.5, factor=2.0, cap=1.5))


def test_one_for_one_restarts_the_dead_child_alone() -> None:
    assert Policy(tree()).died("builder", 0.0) == Restart((), ("builder",), 0.0)


def test_rest_for_one_stops_later_children_backwards_and_starts_them_forwards() -> None:
    decision = Policy(tree("rest_for_one")).died("builder", 0.0)
    assert decision == Restart(
        stop=("gateway", "scheduler"), start=("builder", "scheduler", "gateway"), delay=0.0
    )


def test_rest_for_one_of_the_last_that_can_restart_touches_no_earlier_one() -> None:
    policy = Policy(Tree(tree().branches[:3], Budget(3, 30.0), "rest_for_one"))
    assert policy.died("scheduler", 0.0) == Restart((), ("scheduler",), 0.0)


def test_the_first_death_is_answered_at_once_and_later_ones_wait_longer_up_to_the_cap() -> None:
    policy = Policy(tree(budget=Budget(9, 30.0)))
    decisions = [policy.died("worker", float(second)) for second in range(5)]
    assert [decision.delay for decision in decisions if isinstance(decision, Restart)] == [
        0.0,
        0.5,
        1.0,
        1.5,
        1.5,
    ]


def test_the_delay_grows_with_the_childs_own_deaths_only() -> None:
    policy = Policy(tree())
    policy.died("worker", 0.0)
    assert policy.died("builder", 1.0) == Restart((), ("builder",), 0.0)


def test_one_death_beyond_the_budget_gives_up_and_says_which_rule() -> None:
    policy = Policy(tree(budget=Budget(2, 30.0)))
    policy.died("worker", 0.0)
    policy.died("builder", 1.0)
    assert policy.died("scheduler", 2.0) == GiveUp(
        "more than 2 deaths within 30 s (the restart budget)"
    )


def test_a_budget_of_zero_gives_up_at_the_first_death() -> None:
    assert isinstance(Policy(tree(budget=Budget(0, 30.0))).died("worker", 0.0), GiveUp)


def test_deaths_leave_the_budget_when_the_window_has_passed() -> None:
    policy = Policy(tree(budget=Budget(1, 30.0)))
    assert isinstance(policy.died("worker", 0.0), Restart)
    assert policy.died("worker", 30.0) == Restart((), ("worker",), 0.0)
    assert isinstance(policy.died("worker", 59.9), GiveUp)


def test_a_child_that_cannot_be_replaced_ends_the_engine_within_the_budget() -> None:
    assert Policy(tree()).died("gateway", 0.0) == GiveUp("gateway cannot be restarted")


def test_a_dispensable_child_never_ends_the_engine_and_spends_nobody_elses_budget() -> None:
    branches = (Branch("worker", 5.0), Branch("proposer", 5.0, dispensable=True))
    policy = Policy(Tree(branches, Budget(1, 30.0)))
    decisions = [policy.died("proposer", float(second)) for second in range(12)]
    delays = [d.delay for d in decisions if isinstance(d, Restart)]
    assert len(delays) == 12 and delays == sorted(delays) and delays[-1] == 5.0
    assert policy.died("worker", 12.0) == Restart((), ("worker",), 0.0)
    assert isinstance(policy.died("worker", 13.0), GiveUp)


def test_stop_is_in_reverse_order_with_each_childs_limit() -> None:
    assert stop_order(tree()) == tuple(StopStep(name, 5.0) for name in reversed(NAMES))


def test_an_unknown_child_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="no child 'proposer'"):
        Policy(tree()).died("proposer", 0.0)


@pytest.mark.parametrize(
    ("branches", "budget", "message"),
    [
        (("worker", "worker"), Budget(3, 30.0), "expected names to differ, got worker, worker"),
        (("worker",), Budget(-1, 30.0), "restarts: expected >= 0, got -1"),
        (("worker",), Budget(3, 0.0), "restart_window: expected > 0 seconds, got 0"),
    ],
)
def test_a_tree_that_makes_no_sense_is_refused(
    branches: tuple[str, ...], budget: Budget, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Tree(tuple(Branch(name, 5.0) for name in branches), budget)


def test_a_negative_stop_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match="stop_timeout: expected >= 0 seconds"):
        Tree((Branch("worker", -1.0),), Budget(3, 30.0))


@given(
    gaps=st.lists(st.floats(0.0, 20.0), max_size=40),
    who=st.lists(st.sampled_from(NAMES[:3]), min_size=40, max_size=40),
    restarts=st.integers(0, 4),
)
def test_restarts_within_any_window_never_exceed_the_budget(
    gaps: list[float], who: list[str], restarts: int
) -> None:
    policy, now, granted = Policy(tree(budget=Budget(restarts, 30.0))), 0.0, list[float]()
    for gap, name in zip(gaps, who, strict=False):
        now += gap
        if isinstance(policy.died(name, now), Restart):
            granted.append(now)
    for start in granted:
        assert sum(1 for at in granted if start <= at < start + 29.9) <= restarts
