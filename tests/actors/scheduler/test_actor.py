"""Beginnings, log probabilities, deadlines, statistics and options."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from scheduler_rig import make_rig

from optimist.actors.config import SchedulerConfig
from optimist.messages.base import column
from optimist.messages.control import Resync
from optimist.messages.errors import ConfigError
from optimist.messages.requests import SchedulerStats
from optimist.messages.results import Logprobs

STOP = 7


def test_a_request_whose_tokens_were_all_delivered_before_ends_at_once() -> None:
    rig = make_rig()
    full = rig.admit(5, 3, emitted=[1, 2, 3])
    stopped = rig.admit(5, 9, emitted=[1, STOP], stop_ids=(STOP,))
    assert rig.streams[full].finish == "length" and rig.streams[stopped].finish == "stop"
    assert not rig.core.live and not rig.turn()


def test_emitted_tokens_count_and_the_request_goes_on_behind_them(depth: int) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 6, emitted=[901, 902])
    rig.drain()
    assert rig.delivered(request)[:2] == [901, 902] and len(rig.delivered(request)) == 6
    assert rig.core.counters.emitted_tokens == 4


def test_each_request_gets_its_own_logprobs(depth: int) -> None:
    rig = make_rig(depth=depth)
    first, second, third = (rig.admit(5, 1) for _ in range(3))
    rig.turn()
    some = Logprobs(
        tokens=column([0, 2]),
        chosen=b"aaaabbbb",
        ranks=column([4, 5]),
        counts=column([0, 2]),
        top_ids=column([8, 9]),
        top_values=bytes(8),
    )
    rig.receive(msgspec.structs.replace(rig.results.popleft(), logprobs=some))
    own = rig.streams[third].logprobs[0]
    assert own is not None and own.tokens == column([0]) and own.chosen == b"bbbb"
    assert own.ranks == column([5]) and own.top_ids == column([8, 9])
    other = rig.streams[first].logprobs[0]
    assert other is not None and other.chosen == b"aaaa" and other.top_ids == b""
    assert rig.streams[second].logprobs == [None]


def test_logprobs_stay_with_their_token_when_a_row_before_it_is_not_wanted() -> None:
    rig = make_rig(depth=1)
    gone, kept = rig.admit(5, 1), rig.admit(5, 1)
    rig.turn()
    rig.cancel(gone)
    both = Logprobs(
        tokens=column([0, 1]),
        chosen=b"aaaabbbb",
        ranks=column([4, 5]),
        counts=column([0, 0]),
    )
    rig.receive(msgspec.structs.replace(rig.results.popleft(), logprobs=both))
    own = rig.streams[kept].logprobs[0]
    assert own is not None and own.chosen == b"bbbb" and own.ranks == column([5])


@pytest.mark.parametrize("waits", [True, False])
def test_a_deadline_ends_a_request_that_waits_and_one_that_runs(depth: int, waits: bool) -> None:
    rig = make_rig(depth=depth, max_slots=1)
    running = rig.admit(5, 100, deadline=None if waits else rig.now + 2.0)
    waiting = rig.admit(5, 4, deadline=rig.now + 2.0 if waits else None)
    rig.step()
    assert rig.again is not None and rig.again <= 2.0
    rig.now += 2.0
    rig.turn()
    late = waiting if waits else running
    retired = rig.streams[late].retired
    assert retired is not None and retired.problem is not None
    assert retired.problem.code == "deadline_exceeded"
    rig.drain()
    rig.assert_clean()


def test_stats_are_sent_a_few_times_a_second_and_the_last_ones_always() -> None:
    rig = make_rig(depth=1)
    sent: list[SchedulerStats] = []
    rig.on_stats = sent.append
    rig.admit(5, 45)
    for _ in range(45):
        rig.step()
        rig.now += 0.01
    assert 2 <= len(sent) <= 4
    rig.turn()
    assert rig.again is not None and 0 < rig.again <= 0.25
    rig.now += rig.again
    rig.turn()
    assert sent[-1].emitted_tokens == 45 and sent[-1].running == 0 and sent[-1].steps == 45
    assert sent[-1].max_model_len == 128 and sent[-1].free_blocks == sent[-1].num_blocks == 64
    assert rig.again is None


def test_a_gateway_that_asks_is_told_how_things_stand_although_nothing_changed() -> None:
    rig = make_rig(depth=1)
    sent: list[SchedulerStats] = []
    rig.on_stats = sent.append
    rig.turn()
    rig.scheduler.receive(Resync(incarnation=9, actor="gateway"))
    rig.turn()
    assert [stats.max_model_len for stats in sent] == [128, 128]
    assert rig.plans == [] and rig.again is None


def test_before_the_worker_has_spoken_requests_wait() -> None:
    rig = make_rig(worker=False)
    request = rig.admit(5, 3)
    rig.step()
    assert rig.plans == [] and rig.delivered(request) == []
    rig.start_worker()
    rig.drain()
    assert len(rig.delivered(request)) == 3


def test_on_start_it_asks_gateway_and_worker() -> None:
    rig = make_rig()
    asked = Resync(incarnation=1, actor="scheduler")
    assert rig.worker.sent == [asked] and rig.asked == [asked]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"draft_tokens": 3}, "scheduler.draft_tokens"),
        ({"depth": 0}, "scheduler.depth"),
        ({"max_chunk": 0}, "scheduler.max_chunk"),
        ({"max_batch_tokens": -1}, "scheduler.max_batch_tokens"),
        ({"max_waiting": 0}, "scheduler.max_waiting"),
    ],
)
def test_options_it_cannot_serve_are_refused_by_name(options: dict[str, Any], named: str) -> None:
    SchedulerConfig(**options)
    with pytest.raises(ConfigError, match=named):
        make_rig(**options)
