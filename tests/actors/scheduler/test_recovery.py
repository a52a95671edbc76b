"""Workers that die, builders and workers that ask again."""

from __future__ import annotations

import pytest
from scheduler_rig import Rig, make_rig

from optimist.messages.control import Resync
from optimist.messages.results import Capacity


def replayed(rig: Rig, epoch: int, step: int) -> list[int]:
    before = len(rig.builder.sent)
    rig.receive(Resync(incarnation=9, actor="builder", epoch=epoch, step=step))
    return [plan.step for plan in rig.builder.sent[before:]]


def test_unsettled_plans_are_sent_again_as_they_were() -> None:
    rig = make_rig(depth=2)
    rig.admit(5)
    for _ in range(3):
        rig.step()
    rig.turn()
    sent = rig.builder.sent[-2:]
    assert [plan.step for plan in sent] == [3, 4]
    assert replayed(rig, 0, 0) == [3, 4] and rig.builder.sent[-2:] == sent
    assert replayed(rig, 2, 4) == [4]
    assert replayed(rig, 2, 0) == [3, 4]
    assert replayed(rig, 2, 5) == [] and replayed(rig, 77, 0) == []


def test_before_the_worker_has_spoken_there_is_nothing_to_send_again() -> None:
    rig = make_rig(worker=False)
    assert replayed(rig, 0, 0) == []


def test_a_new_worker_begins_a_new_epoch_and_every_stream_goes_on(depth: int) -> None:
    rig = make_rig(depth=depth, max_slots=2)
    requests = [rig.admit(5, 10) for _ in range(4)]
    for _ in range(5):
        rig.step()
    rig.turn()
    rig.start_worker()
    plan = rig.turn()[0]
    assert plan.epoch == rig.incarnation == 3 and plan.step == 0 and plan.blocks.version == 1
    assert [slot.request for slot in plan.opened] == requests[:2]
    assert [slot.generation for slot in plan.opened] == [1, 1]
    assert all(slot.cached_len == 0 for slot in plan.opened)
    rig.drain()
    assert [len(rig.delivered(request)) for request in requests] == [10] * 4
    rig.assert_clean()


def test_on_the_new_device_old_requests_and_new_ones_share_blocks(depth: int) -> None:
    rig = make_rig(depth=depth)
    prompt = list(range(100, 109))
    rig.admit(prompt, 10)
    for _ in range(3):
        rig.step()
    rig.start_worker()
    rig.drain()
    later = rig.admit(prompt, 1)
    rig.drain()
    assert rig.streams[later].cached_len == 8


def test_results_of_a_dead_worker_are_ignored(depth: int) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 4)
    rig.turn()
    late = list(rig.results)
    rig.start_worker()
    for result in late:
        rig.receive(result)
    assert rig.core.counters.ignored["stale_result"] == depth and rig.delivered(request) == []
    rig.drain()
    assert len(rig.delivered(request)) == 4


def test_a_known_worker_that_speaks_again_changes_nothing(depth: int) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 4)
    rig.turn()
    rig.receive(Capacity(incarnation=2, **rig.capacity))
    rig.receive(Capacity(incarnation=1, **rig.capacity))
    assert rig.core.counters.ignored["known_capacity"] == 2
    rig.drain()
    assert len(rig.delivered(request)) == 4


def test_a_request_in_two_steps_that_died_fails_alone(depth: int) -> None:
    rig = make_rig(depth=depth, max_slots=1)
    poison, other = rig.admit(5, 4), rig.admit(5, 4)
    for _ in range(2):
        rig.turn()
        rig.start_worker()
    retired = rig.streams[poison].retired
    assert retired is not None and retired.problem is not None
    assert retired.problem.code == "request_failed"
    assert "two steps that died" in retired.problem.message
    rig.drain()
    assert len(rig.delivered(other)) == 4
    rig.assert_clean()


def test_a_death_between_steps_is_nobodys_fault() -> None:
    rig = make_rig(depth=1)
    request = rig.admit(5, 10)
    for _ in range(3):
        rig.step()
        rig.start_worker()
    rig.drain()
    assert len(rig.delivered(request)) == 10


def test_a_cancelled_request_is_not_revived() -> None:
    rig = make_rig(depth=2)
    request = rig.admit(5, 10)
    rig.turn()
    rig.cancel(request)
    rig.start_worker()
    rig.drain()
    assert rig.delivered(request) == []
    rig.assert_clean()


def test_a_request_preempted_in_flight_survives_the_worker() -> None:
    rig = make_rig(depth=2, num_blocks=6, max_slots=2)
    requests = [rig.admit(5, 20) for _ in range(2)]
    while rig.core.counters.preemptions == 0:
        rig.step()
    rig.start_worker()
    rig.drain()
    assert [len(rig.delivered(request)) for request in requests] == [20, 20]
    rig.assert_clean()


@pytest.mark.parametrize("block_size", [2, 8])
def test_a_new_worker_may_hold_less_and_in_other_blocks(depth: int, block_size: int) -> None:
    rig = make_rig(depth=depth, max_batch_tokens=64)
    small, large, waiting = rig.admit(9, 6), rig.admit(30, 6), rig.admit(40, 6)
    for _ in range(3):
        rig.step()
    fresh = rig.admit(26, 6)
    rig.capacity |= {"block_size": block_size, "num_blocks": 24 // block_size, "max_slots": 3}
    rig.start_worker()
    rig.drain()
    assert len(rig.delivered(small)) == 6
    assert rig.streams[large].finish == "length" and 0 < len(rig.delivered(large)) < 6
    assert rig.streams[waiting].finish == "length"
    retired = rig.streams[fresh].retired
    assert retired is not None and retired.problem is not None
    assert retired.problem.code == "too_large"
    rig.assert_clean()


def test_a_cut_after_the_device_is_gone_is_harmless() -> None:
    rig = make_rig(depth=1)
    request = rig.admit(9, 3)
    rig.drain()
    rig.start_worker()
    rig.cancel(request, 1)
    assert rig.core.counters.ignored["unknown_cancel"] == 1
    other = rig.admit(9, 3)
    rig.start_worker()
    rig.cancel(other, 0)
    rig.drain()
    rig.assert_clean()
