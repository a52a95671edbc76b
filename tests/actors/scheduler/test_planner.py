"""What a step contains: decode rows, chunks, admissions, and their order."""

from __future__ import annotations

import pytest
from scheduler_rig import make_rig

from optimist.messages.base import ints, size
from optimist.messages.plans import ExactPlan, Plan


def chunks(plan: Plan) -> list[int]:
    sizes: list[int] = (plan.prefill.seq_lens.exact() - ints(plan.prefill.starts)).tolist()
    return sizes


def tokens_of(plan: Plan) -> int:
    return size(plan.decode_slots) + sum(chunks(plan))


def test_prompts_are_computed_whole_and_in_order_when_they_fit() -> None:
    rig = make_rig(depth=1)
    for length in (5, 9, 3):
        rig.admit(length)
    (plan,) = rig.step()
    assert chunks(plan) == [5, 9, 3] and ints(plan.prefill.samples).tolist() == [1, 1, 1]
    assert [slot.request for slot in plan.opened] == [1, 2, 3]


def test_two_steps_are_planned_ahead_and_no_third() -> None:
    rig = make_rig(depth=2)
    rig.admit(5)
    first, second = rig.turn()
    assert chunks(first) == [5] and size(second.decode_slots) == 1
    assert isinstance(second, ExactPlan) and second.decode_lens.exact().tolist() == [6]
    assert rig.turn() == []


def test_depth_one_waits_for_each_result() -> None:
    rig = make_rig(depth=1)
    rig.admit(5)
    assert len(rig.turn()) == 1 and rig.turn() == []


def test_long_prompts_share_steps_in_chunks() -> None:
    rig = make_rig(
        depth=1, max_batch_tokens=1024, max_chunk=400, num_blocks=1000, max_model_len=2048
    )
    for _ in range(3):
        rig.admit(800, 4)
    assert chunks(rig.step()[0]) == [400, 400, 224]
    assert chunks(rig.step()[0]) == [400, 400, 224]
    last = rig.step()[0]
    assert size(last.decode_slots) == 2 and chunks(last) == [352]


def test_a_chunk_that_does_not_reach_the_last_token_samples_nothing(depth: int) -> None:
    rig = make_rig(depth=depth, max_chunk=4)
    request = rig.admit(10, 2)
    rig.drain()
    assert [chunks(plan) for plan in rig.plans] == [[4], [4], [2], []]
    samples = [ints(plan.prefill.samples).tolist() for plan in rig.plans]
    assert samples == [[0], [0], [1], []]
    assert len(rig.delivered(request)) == 2


def test_decode_rows_come_first_and_prompts_take_what_is_left() -> None:
    rig = make_rig(depth=1, max_batch_tokens=8)
    rig.admit(4, 20)
    rig.admit(3, 20)
    rig.step()
    rig.admit(30, 2)
    plan = rig.step()[0]
    assert size(plan.decode_slots) == 2 and chunks(plan) == [6]


@pytest.mark.parametrize("budget", [1, 3, 8])
def test_no_step_is_larger_than_the_budget(depth: int, budget: int) -> None:
    rig = make_rig(depth=depth, max_batch_tokens=budget, max_chunk=5)
    requests = [rig.admit(3 + i, 6) for i in range(6)]
    rig.drain()
    assert max(map(tokens_of, rig.plans)) == budget
    assert all(len(rig.delivered(request)) == 6 for request in requests)


def test_the_workers_budget_counts_too() -> None:
    rig = make_rig(depth=1, max_batch_tokens=1000, worker_batch_tokens=64)
    rig.admit(100)
    assert chunks(rig.step()[0]) == [64]


def test_without_a_budget_of_ones_own_the_workers_counts() -> None:
    rig = make_rig(depth=1, max_batch_tokens=None, worker_batch_tokens=48)
    rig.admit(100)
    assert chunks(rig.step()[0]) == [48]


def test_prompts_advance_as_fast_beside_decode_rows_where_these_have_room_of_their_own() -> None:
    rig = make_rig(depth=1, max_batch_tokens=12, max_prompt_tokens=8)
    rig.admit(4, 20)
    rig.admit(4, 20)
    rig.admit(30, 2)
    assert chunks(rig.step()[0]) == [4, 4]
    plan = rig.step()[0]
    assert size(plan.decode_slots) == 2 and chunks(plan) == [8]


@pytest.mark.parametrize(("budget", "chunk"), [(20, 8), (6, 4), (2, 0)])
def test_a_small_budget_leaves_prompts_less_than_they_may_have(budget: int, chunk: int) -> None:
    rig = make_rig(depth=1, max_batch_tokens=budget, max_prompt_tokens=8)
    rig.admit(1, 20)
    rig.admit(1, 20)
    rig.step()
    rig.admit(30, 2)
    assert sum(chunks(rig.step()[0])) == chunk


def test_more_decode_rows_than_budget_take_turns(depth: int) -> None:
    rig = make_rig(depth=depth, max_batch_tokens=3)
    requests = [rig.admit(1, 40, credit=1) for _ in range(5)]
    rig.drain()
    for request in requests:
        rig.grant(request, 40)
    rig.plans.clear()
    for _ in range(20):
        rig.step()
    assert all(size(plan.decode_slots) == 3 for plan in rig.plans)
    counts = [len(rig.delivered(request)) for request in requests]
    assert max(counts) - min(counts) <= 2


def test_a_better_priority_is_admitted_first(depth: int) -> None:
    rig = make_rig(depth=depth, max_slots=1)
    for priority in (0, 2, 1, 1):
        rig.admit(3, 2, priority=priority)
    rig.drain()
    opened = [slot.request for plan in rig.plans for slot in plan.opened]
    assert opened == [1, 3, 4, 2]


def test_nobody_is_admitted_past_a_head_that_does_not_fit(depth: int) -> None:
    rig = make_rig(depth=depth, num_blocks=8)
    rig.admit(17, 8)
    big, small = rig.admit(20, 2), rig.admit(2, 2)
    rig.drain()
    opened = [slot.request for plan in rig.plans for slot in plan.opened]
    assert opened == [1, big, small]


def test_a_slot_is_used_again_only_after_the_last_step_that_names_it() -> None:
    rig = make_rig(depth=2, max_slots=1)
    first = rig.admit(3, 50)
    rig.step()
    rig.turn()
    second = rig.admit(3, 2)
    rig.cancel(first)
    assert rig.turn() == []
    rig.settle()
    rig.turn()
    assert all(not plan.opened for plan in rig.plans[1:])
    rig.settle()
    plan = rig.turn()[0]
    assert [slot.request for slot in plan.opened] == [second]
    assert ints(plan.closed).tolist() == [plan.opened[0].slot]


def test_a_decode_only_step_moves_no_blocks_but_those_it_needs() -> None:
    rig = make_rig(depth=1)
    rig.admit(5, 12)
    for _ in range(9):
        rig.step()
    grown = [ints(plan.blocks.offsets).tolist() for plan in rig.plans]
    assert grown == [[0], [], [], [], [2], [], [], [], [3]]
    assert [plan.blocks.version for plan in rig.plans] == list(range(1, 10))


def test_random_loads_are_served_in_full(depth: int) -> None:
    rig = make_rig(depth=depth, num_blocks=12, max_slots=3, max_chunk=6)
    requests = [rig.admit(1 + 7 * i % 23, 1 + 5 * i % 13) for i in range(40)]
    rig.drain()
    assert [len(rig.delivered(r)) for r in requests] == [1 + 5 * i % 13 for i in range(40)]
    rig.assert_clean()
