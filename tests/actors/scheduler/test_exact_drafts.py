"""Drafts where steps do not overlap: a plan asks for those of the next one, which has no more than came."""

from __future__ import annotations

from scheduler_rig import drafting, drafts

from optimist.messages.base import ints
from optimist.messages.plans import ExactPlan, Plan


def wanted(plan: Plan) -> list[int]:
    assert isinstance(plan, ExactPlan)
    found: list[int] = ints(plan.drafts_wanted).tolist()
    return found


def test_every_plan_is_exact_where_steps_do_not_overlap() -> None:
    rig = drafting(depth=1)
    rig.admit(5, 9)
    rig.drain()
    assert {type(plan) for plan in rig.plans} == {ExactPlan}
    assert [drafts(plan) for plan in rig.plans] == [[], [3], [3]]


def test_no_more_drafts_are_planned_than_wait_at_the_worker_where_a_plan_is_exact() -> None:
    rig = drafting(depth=1)
    rig.device.held = 2
    rig.admit(5, 12)
    rig.step()
    assert drafts(*rig.step()) == [2]
    rig.device.held = 0
    assert drafts(*rig.step()) == [2]
    assert drafts(*rig.step()) == [0]


def test_an_exact_plan_says_how_many_drafts_the_next_one_would_take() -> None:
    rig = drafting(depth=1, max_batch_tokens=7)
    rig.device.script = lambda request, room: (room, 0)
    rig.admit(5, 6)
    rig.admit(5, 2)
    rig.drain()
    assert [(drafts(plan), wanted(plan)) for plan in rig.plans] == [
        ([], [3, 0]),
        ([3], [3, 0]),
        ([3, 0], [2, 0]),
        ([2], [1]),
        ([1], []),
        ([0], []),
    ]


def test_a_proposer_that_has_nothing_to_say_is_seldom_asked_where_a_plan_is_exact() -> None:
    rig = drafting(depth=1, drafts="auto")
    rig.device.held = 0
    rig.admit(5, 110)
    rig.drain()
    assert 1 <= sum(bool(wanted(plan)) for plan in rig.plans) <= 12
