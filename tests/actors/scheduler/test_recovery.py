"""Workers that die, builders and workers that ask again."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from scheduler_rig import Rig, make_rig

from optimist.actors.scheduler.recovery import placed
from optimist.messages.control import Resync
from optimist.messages.requests import Placed
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
    plans = [rig.step()[0] for _ in range(2)]
    opened = [slot for plan in plans for slot in plan.opened]
    assert [plan.step for plan in plans] == [0, 1]
    assert plans[0].epoch == rig.incarnation == 3 and plans[0].blocks.version == 1
    assert [slot.request for slot in opened] == requests[:2]
    assert [slot.generation for slot in opened] == [1, 1]
    assert all(slot.cached_len == 0 for slot in opened)
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


def test_the_gateway_is_told_of_who_is_in_steps_before_the_step_is(depth: int) -> None:
    rig = make_rig(depth=depth, max_slots=1)
    first, second = rig.admit(5, 2), rig.admit(5, 2)
    order: list[Any] = []
    rig.builder.send = lambda plan: order.append(len(plan.opened))  # type: ignore[method-assign]
    rig.gateway.send = lambda news: order.append(news)  # type: ignore[method-assign]
    rig.turn()
    assert isinstance(order[0], Placed) and (order[0].request, order[0].waits) == (first, False)
    assert order[1] == 1 and second not in [p.request for p in order if isinstance(p, Placed)]


def test_a_preempted_request_waits_and_says_so() -> None:
    rig = make_rig(depth=2, num_blocks=6, max_slots=2)
    requests = [rig.admit(5, 20) for _ in range(2)]
    while not any(told.waits for told in rig.placed):
        rig.step()
    told = rig.placed[-1]
    assert told.waits and told.request in requests
    rig.drain()
    assert rig.core.counters.preemptions == sum(told.waits for told in rig.placed)


def test_who_was_tried_alone_and_is_preempted_next_waits_last_of_all() -> None:
    rig = make_rig(depth=1)
    request = rig.admit(5, 6)
    rig.turn()
    rig.start_worker()
    rig.turn()
    epoch = rig.core.epoch
    assert epoch is not None and epoch.told is epoch.trial is not None
    rig.settle()
    epoch.trial = None
    epoch.waiting.append(request)
    later = structs.replace(rig.builder.sent[-1], opened=())
    told = placed(epoch, rig.incarnation, later)
    assert [(one.request, one.waits) for one in told] == [(request, False), (request, True)]


def test_strikes_are_counted_over_the_lives_of_schedulers() -> None:
    rig = make_rig(depth=2)
    refused, tried = rig.admit(5, 4, strikes=2), rig.admit(5, 4, strikes=1)
    retired = rig.streams[refused].retired
    assert retired is not None and retired.problem is not None
    assert "two steps that died" in retired.problem.message
    rig.turn()
    assert [(told.request, told.strikes) for told in rig.placed] == [(tried, 1)]
    rig.start_worker()
    assert rig.streams[tried].retired is not None
    rig.assert_clean()


def test_an_admit_that_comes_late_brings_its_strikes() -> None:
    rig = make_rig(worker=False)
    request = rig.admit(5, 4)
    rig.resend(request, rig.streams[request].prompt, 4, [], strikes=1)
    rig.start_worker()
    rig.turn()
    assert [told.strikes for told in rig.placed] == [1]


def test_after_a_death_each_request_that_was_in_the_step_is_tried_alone(depth: int) -> None:
    rig = make_rig(depth=depth)
    requests = [rig.admit(5, 6) for _ in range(3)]
    rig.step()
    rig.turn()
    rig.start_worker()
    later = rig.admit(5, 6)
    opened = []
    for _ in range(3):
        plans = rig.turn()
        assert [len(plan.decode_slots) for plan in plans] == [0], "nothing runs beside it"
        opened += [slot.request for plan in plans for slot in plan.opened]
        rig.settle()
    assert opened == requests
    assert [slot.request for slot in rig.turn()[0].opened] == [later]
    rig.drain()
    assert [len(rig.delivered(request)) for request in (*requests, later)] == [6] * 4
    rig.assert_clean()


def test_who_takes_the_worker_along_again_is_refused_alone(depth: int) -> None:
    rig = make_rig(depth=depth)
    poison, *others = (rig.admit(5, 4) for _ in range(4))
    rig.turn()
    for _ in range(2):
        rig.start_worker()
        rig.turn()
    retired = rig.streams[poison].retired
    assert retired is not None and retired.problem is not None
    rig.drain()
    assert [len(rig.delivered(request)) for request in others] == [4] * 3
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
