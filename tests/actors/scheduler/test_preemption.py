"""A pool that is too small: who gives way, and that nothing is lost or doubled."""

from __future__ import annotations

from itertools import pairwise

import pytest
from scheduler_rig import Rig, make_rig


def opened(rig: Rig) -> list[int]:
    return [slot.request for plan in rig.plans for slot in plan.opened]


def run_to_preemption(rig: Rig, limit: int = 100) -> None:
    """Plan and settle, until somebody has been preempted and no result has come since."""
    for _ in range(limit):
        before = rig.core.counters.preemptions
        rig.turn()
        if rig.core.counters.preemptions > before:
            return
        rig.settle()
    raise AssertionError("nobody is preempted")


def test_a_token_in_flight_at_preemption_is_delivered_once() -> None:
    rig = make_rig(depth=2, num_blocks=6, max_slots=2)
    first, second = rig.admit(5, 20), rig.admit(5, 20)
    run_to_preemption(rig)
    before = len(rig.delivered(second))
    in_flight = len(rig.results)
    assert in_flight and second in rig.core.live
    while rig.results:
        rig.settle()
    assert len(rig.delivered(second)) == before + in_flight
    rig.drain()
    assert len(rig.delivered(first)) == len(rig.delivered(second)) == 20
    assert all(len(tokens) == 1 for tokens in rig.device.sampled.values())
    assert rig.core.counters.wasted_tokens == 0
    rig.assert_clean()


def test_a_preempted_request_that_ends_in_flight_is_not_computed_again() -> None:
    def run(stop_at: int) -> Rig:
        rig = make_rig(depth=2, num_blocks=6, max_slots=2)
        rig.device.scripted[2, stop_at] = 7
        rig.admit(5, 20, request=1)
        rig.admit(5, 20, request=2, stop_ids=(7,))
        run_to_preemption(rig)
        return rig

    rig = run(stop_at=0)
    in_flight = 5 + len(rig.delivered(2))
    rig = run(stop_at=in_flight)
    rig.drain()
    assert len(rig.delivered(2)) == in_flight - 5 + 1
    assert rig.streams[2].finish == "stop" and opened(rig).count(2) == 1
    rig.assert_clean()


@pytest.mark.parametrize("when", ["in flight", "queued"])
def test_a_preempted_request_can_be_cancelled(when: str) -> None:
    rig = make_rig(depth=2, num_blocks=6, max_slots=2)
    first, second = rig.admit(5, 20), rig.admit(5, 20)
    run_to_preemption(rig)
    if when == "queued":
        while rig.results:
            rig.settle()
    rig.cancel(second)
    before = len(rig.delivered(second))
    rig.drain()
    assert len(rig.delivered(second)) == before and len(rig.delivered(first)) == 20
    rig.assert_clean()


def test_the_last_of_equals_gives_way(depth: int) -> None:
    rig = make_rig(depth=depth, num_blocks=9, max_slots=3)
    requests = [rig.admit(5, 20) for _ in range(3)]
    run_to_preemption(rig)
    assert rig.core.device is not None
    running = {
        rig.core.device.epoch.slots.request(s).id for s in rig.core.device.epoch.slots.running()
    }
    assert running == set(requests[:2])
    rig.drain()
    assert all(len(rig.delivered(r)) == 20 for r in requests)


def test_the_lowest_priority_gives_way_though_it_came_first(depth: int) -> None:
    rig = make_rig(depth=depth, num_blocks=6, max_slots=2)
    low = rig.admit(5, 20, priority=5)
    rig.step()
    high = rig.admit(5, 20, priority=0)
    rig.drain()
    assert opened(rig).count(high) == 1 and opened(rig).count(low) == 2
    rig.assert_clean()


def test_with_room_nobody_gives_way(depth: int) -> None:
    rig = make_rig(depth=depth, num_blocks=64)
    for priority in range(8):
        rig.admit(5, 20, priority=priority)
    rig.drain()
    assert rig.core.counters.preemptions == 0


def test_a_stalled_slot_gives_way_before_a_busy_one(depth: int) -> None:
    rig = make_rig(depth=depth, num_blocks=9, max_slots=3)
    stalled = rig.admit(5, 20, credit=1, priority=0)
    busy = [rig.admit(2, 15, priority=1) for _ in range(2)]
    rig.drain()
    assert rig.core.counters.preemptions == 1
    assert [opened(rig).count(request) for request in busy] == [1, 1]
    assert len(rig.delivered(stalled)) == 1
    rig.grant(stalled, 50)
    rig.drain()
    assert len(rig.delivered(stalled)) == 20
    rig.assert_clean()


def test_many_requests_in_four_blocks_arrive_whole_and_in_order(depth: int) -> None:
    rig = make_rig(depth=depth, num_blocks=4, max_slots=4, max_model_len=32)
    requests = [rig.admit(3, 10) for _ in range(8)]
    rig.drain()
    assert rig.core.counters.preemptions > 0
    assert all(len(rig.delivered(request)) == 10 for request in requests)
    rig.assert_clean()


def test_each_admission_of_one_request_is_a_new_generation(depth: int) -> None:
    rig = make_rig(depth=depth, num_blocks=8, max_slots=4)
    requests = [rig.admit(1, 20) for _ in range(4)]
    rig.drain()
    assert max(opened(rig).count(request) for request in requests) >= 3
    generations = [s.generation for p in rig.plans for s in p.opened if s.request == requests[-1]]
    assert generations == list(range(len(generations)))
    assert all(len(rig.delivered(request)) == 20 for request in requests)


@pytest.mark.parametrize("blocks", [4, 6, 9, 14])
def test_a_request_is_preempted_at_most_once_for_a_block_of_delivered_tokens(
    depth: int, blocks: int
) -> None:
    rig = make_rig(depth=depth, num_blocks=blocks, max_slots=6, max_model_len=40)
    requests = [rig.admit(3 + i % 4, 12) for i in range(8)]
    delivered_at: dict[int, list[int]] = {request: [] for request in requests}
    for _ in range(2_000):
        for plan in rig.turn():
            for slot in plan.opened:
                delivered_at[slot.request].append(rig.core.counters.emitted_tokens)
        if not rig.results:
            break
        rig.settle()
    for places in delivered_at.values():
        least = rig.device.block_size - depth
        assert all(later - earlier >= least for earlier, later in pairwise(places))
    assert rig.core.counters.preemptions * rig.device.block_size <= 12 * 8 * 8


def test_a_block_for_every_running_row_is_left_at_admission(depth: int) -> None:
    rig = make_rig(depth=depth, num_blocks=9, max_slots=6, max_batch_tokens=4)
    for i in range(8):
        rig.admit(3 + i % 4, 12)
    for _ in range(1_000):
        plans = rig.turn()
        assert rig.core.device is not None
        running = len(rig.core.device.epoch.slots.running())
        if running > 1 and any(plan.opened for plan in plans[-1:]):
            assert rig.core.device.epoch.pool.available >= running
        if not rig.results:
            break
        rig.settle()
    rig.assert_clean()


def test_planning_again_before_a_reply_preempts_nobody_else() -> None:
    rig = make_rig(depth=2, num_blocks=9, max_slots=3)
    for _ in range(3):
        rig.admit(5, 20)
    run_to_preemption(rig)
    assert rig.results
    preempted = rig.core.counters.preemptions
    for _ in range(3):
        rig.turn()
    assert rig.core.counters.preemptions == preempted
    rig.drain()


def test_a_prompt_in_chunks_is_computed_again_behind_its_emitted_tokens(depth: int) -> None:
    rig = make_rig(depth=depth, num_blocks=6, max_slots=2, max_chunk=3, prefix_cache=False)
    first, second = rig.admit(5, 20), rig.admit(5, 20)
    rig.drain()
    assert opened(rig).count(second) > 1
    again = [s for p in rig.plans for s in p.opened if s.request == second][-1]
    assert len(again.token_ids) // 4 > again.prompt_len == 5 and again.cached_len == 0
    assert len(rig.delivered(first)) == len(rig.delivered(second)) == 20
