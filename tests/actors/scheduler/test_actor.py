"""A request's life, from Admit to its last message."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pytest

from optimist.actors.config import SchedulerConfig
from optimist.messages.base import column
from optimist.messages.control import Drain, Resync
from optimist.messages.errors import ConfigError
from optimist.messages.requests import SchedulerStats
from optimist.messages.results import Logprobs, StepResult

if TYPE_CHECKING:
    from tests.actors.scheduler.conftest import Rig

MakeRig = Callable[..., "Rig"]
STOP = 7


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 5])
def test_max_tokens_end_a_request_without_a_wasted_token(
    make_rig: MakeRig, depth: int, max_tokens: int
) -> None:
    rig = make_rig(depth=depth)
    first = rig.admit(6, max_tokens)
    rig.step()
    second = rig.admit(9, max_tokens)
    rig.drain()
    for request in (first, second):
        assert len(rig.delivered(request)) == max_tokens
        assert rig.streams[request].finish == "length"
    assert rig.core.counters.wasted_tokens == 0
    assert rig.device.rows_of == {first: max_tokens, second: max_tokens}
    rig.assert_clean()


@pytest.mark.parametrize("place", [0, 1, 4])
def test_a_stop_token_is_the_last_one_and_wastes_at_most_the_steps_ahead(
    make_rig: MakeRig, depth: int, place: int
) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 20, request=1, stop_ids=(3, STOP))
    rig.device.scripted[1, 5 + place] = STOP
    rig.drain()
    assert rig.delivered(request)[-1] == STOP and len(rig.delivered(request)) == place + 1
    assert rig.streams[request].finish == "stop"
    assert rig.device.rows_of[request] == place + 1 + (depth - 1)
    assert rig.core.counters.wasted_tokens == depth - 1
    assert rig.core.counters.emitted_tokens == place + 1
    rig.assert_clean()


def test_a_stop_token_as_the_last_allowed_one_says_stop(make_rig: MakeRig, depth: int) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 3, request=1, stop_ids=(STOP,))
    rig.device.scripted[1, 7] = STOP
    rig.drain()
    assert rig.streams[request].finish == "stop"
    assert rig.core.counters.wasted_tokens == 0


def test_without_stop_ids_no_token_stops_a_request(make_rig: MakeRig, depth: int) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 4, request=1)
    rig.device.scripted[1, 6] = STOP
    rig.drain()
    assert len(rig.delivered(request)) == 4 and rig.streams[request].finish == "length"


def test_stop_ids_of_an_earlier_request_do_not_stay_in_its_slot(make_rig: MakeRig) -> None:
    rig = make_rig(depth=1, max_slots=1)
    rig.admit(5, 3, request=1, stop_ids=(3, STOP))
    rig.device.scripted[2, 6] = STOP
    rig.admit(5, 4, request=2)
    rig.drain()
    assert len(rig.delivered(2)) == 4


@pytest.mark.parametrize("prompt", [28, 31])
def test_the_context_limit_ends_a_request(make_rig: MakeRig, depth: int, prompt: int) -> None:
    rig = make_rig(depth=depth, max_model_len=32)
    request = rig.admit(prompt, 100)
    rig.drain()
    assert len(rig.delivered(request)) == 32 - prompt
    assert rig.streams[request].finish == "length"
    assert rig.core.counters.wasted_tokens == 0


def test_all_blocks_together_are_a_context_limit_too(make_rig: MakeRig, depth: int) -> None:
    rig = make_rig(depth=depth, num_blocks=4)
    request = rig.admit(10, 100)
    rig.drain()
    assert len(rig.delivered(request)) == 4 * 4 + 1 - 10
    assert rig.streams[request].finish == "length"


@pytest.mark.parametrize(("blocks", "limit"), [(8, 200), (64, 32)])
def test_a_request_that_can_never_fit_is_refused_at_once_and_blocks_nobody(
    make_rig: MakeRig, depth: int, blocks: int, limit: int
) -> None:
    rig = make_rig(depth=depth, num_blocks=blocks, max_model_len=limit)
    huge = rig.admit(33, 4)
    retired = rig.streams[huge].retired
    assert retired is not None and retired.problem is not None
    assert retired.problem.code == "too_large" and "got 33" in retired.problem.message
    short = rig.admit(5, 3)
    rig.drain()
    assert len(rig.delivered(short)) == 3
    rig.assert_clean()


def test_an_empty_prompt_and_ids_outside_the_vocabulary_are_refused(make_rig: MakeRig) -> None:
    rig = make_rig(vocab_size=50)
    for prompt, field in (([], "prompt"), ([1, 50], "prompt")):
        retired = rig.streams[rig.admit(prompt)].retired
        assert retired is not None and retired.problem is not None
        assert retired.problem.code == "invalid_request" and retired.problem.field == field
    fine = rig.admit([0, 49], 1)
    rig.drain()
    assert rig.streams[fine].finish == "length"


def test_cancelled_in_any_order_with_two_steps_in_flight(make_rig: MakeRig) -> None:
    rig = make_rig(depth=2, max_slots=10)
    requests = [rig.admit(5, 20) for _ in range(10)]
    rig.turn()
    order = [0, 8, 3, 1, 6, 4, 2, 5, 7, 9]
    for place, i in enumerate(order):
        rig.cancel(requests[i])
        assert len(rig.delivered(requests[i])) == place
        rig.settle()
        rig.turn()
    rig.drain()
    rig.assert_clean()


def test_a_request_cancelled_during_its_last_step_says_cancelled(
    make_rig: MakeRig, depth: int
) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 1)
    rig.turn()
    rig.cancel(request)
    rig.drain()
    retired = rig.streams[request].retired
    assert retired is not None and retired.problem is None
    assert rig.delivered(request) == [] and rig.core.counters.wasted_tokens == 1
    rig.assert_clean()


@pytest.mark.parametrize("when", ["waiting", "prefilling", "decoding", "in flight", "unknown"])
def test_cancellation_on_every_path(make_rig: MakeRig, depth: int, when: str) -> None:
    rig = make_rig(depth=depth, max_chunk=3)
    other = rig.admit(5, 30)
    request = rig.admit(14, 30)
    if when == "waiting":
        rig.cancel(request)
    elif when == "prefilling":
        rig.step()
        rig.cancel(request)
    elif when == "decoding":
        for _ in range(8):
            rig.step()
        rig.cancel(request)
    elif when == "in flight":
        for _ in range(8):
            rig.step()
        rig.turn()
        rig.cancel(request)
    else:
        rig.cancel(12345)
        rig.cancel(request)
    rig.cancel(request)
    assert rig.core.counters.ignored["unknown_cancel"] == (2 if when == "unknown" else 1)
    rig.drain()
    assert len(rig.delivered(other)) == 30
    rig.assert_clean()


def test_added_cancelled_and_added_again_in_one_burst(make_rig: MakeRig, depth: int) -> None:
    rig = make_rig(depth=depth)
    for _ in range(3):
        first = rig.admit(5, 4)
        rig.cancel(first)
        second = rig.admit(5, 4)
        rig.turn()
        rig.cancel(second)
        third = rig.admit(5, 4)
        rig.drain()
        assert len(rig.delivered(third)) == 4
    rig.assert_clean()


def test_a_live_request_admitted_again_is_ignored_and_counted(
    make_rig: MakeRig, depth: int
) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 4)
    rig.step()
    rig.resend(request, [1, 2, 3], 9, [])
    assert rig.core.counters.ignored["duplicate_admit"] == 1
    rig.drain()
    assert len(rig.delivered(request)) == 4
    rig.assert_clean()


def test_repeated_unknown_and_foreign_results_are_ignored_and_counted(
    make_rig: MakeRig, depth: int
) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 4)
    rig.turn()
    result = rig.settle()
    rig.receive(result)
    rig.receive(StepResult(incarnation=2, epoch=result.epoch, step=77))
    rig.receive(StepResult(incarnation=2, epoch=99, step=1))
    assert rig.core.counters.ignored["stale_result"] == 3
    rig.drain()
    assert len(rig.delivered(request)) == 4


def test_a_result_that_comes_before_the_one_ahead_of_it_waits(make_rig: MakeRig) -> None:
    rig = make_rig(depth=2)
    request = rig.admit(5, 4)
    rig.turn()
    early = rig.settle(1)
    rig.receive(early)
    assert rig.delivered(request) == [] and rig.core.counters.ignored["stale_result"] == 1
    rig.settle()
    assert len(rig.delivered(request)) == 2
    rig.drain()


def test_messages_about_requests_that_are_gone_or_of_no_known_kind_are_counted(
    make_rig: MakeRig,
) -> None:
    rig = make_rig()
    rig.grant(5, 3)
    rig.cancel(5)
    rig.receive(cast("Any", Drain(incarnation=1)))
    assert rig.core.counters.ignored == {
        "unknown_grant": 1,
        "unknown_cancel": 1,
        "message": 1,
    }


def test_a_row_that_the_worker_leaves_out_fails_alone(make_rig: MakeRig, depth: int) -> None:
    rig = make_rig(depth=depth)
    requests = [rig.admit(5, 4) for _ in range(3)]
    rig.turn()
    whole = rig.results.popleft()
    kept = [0, 2]
    rig.receive(
        StepResult(
            incarnation=2,
            epoch=whole.epoch,
            step=whole.step,
            slots=b"".join(whole.slots[4 * i : 4 * i + 4] for i in kept) + column([99]),
            generations=column([0, 0, 0]),
            token_counts=column([1, 1, 1]),
            token_ids=b"".join(whole.token_ids[4 * i : 4 * i + 4] for i in kept) + column([1]),
            drafts_run=column([0, 0, 0]),
        )
    )
    assert rig.core.counters.ignored["row"] == 1
    rig.drain()
    retired = rig.streams[requests[1]].retired
    assert retired is not None and retired.problem is not None
    assert retired.problem.code == "request_failed"
    assert [len(rig.delivered(r)) for r in requests] == [4, 0, 4]
    rig.assert_clean()


def test_credit_pauses_its_own_row_only(make_rig: MakeRig, depth: int) -> None:
    rig = make_rig(depth=depth)
    slow, quick = rig.admit(5, 10, credit=3), rig.admit(5, 10)
    rig.drain()
    assert len(rig.delivered(slow)) == 3 and rig.streams[slow].finish is None
    assert len(rig.delivered(quick)) == 10
    rig.grant(slow, 2)
    rig.drain()
    assert len(rig.delivered(slow)) == 5
    rig.grant(slow, 100)
    rig.drain()
    assert len(rig.delivered(slow)) == 10 and rig.streams[slow].finish == "length"
    rig.assert_clean()


def test_a_request_without_credit_holds_up_nobody_and_starts_with_its_first_grant(
    make_rig: MakeRig, depth: int
) -> None:
    rig = make_rig(depth=depth, max_slots=1)
    parked, other = rig.admit(5, 2, credit=0), rig.admit(5, 2)
    rig.drain()
    assert rig.streams[other].finish == "length" and rig.delivered(parked) == []
    rig.grant(parked, 2)
    rig.drain()
    assert rig.streams[parked].finish == "length"
    rig.assert_clean()


def test_a_slot_without_credit_gives_way_when_nothing_else_can_run(
    make_rig: MakeRig, depth: int
) -> None:
    rig = make_rig(depth=depth, max_slots=2)
    slow = [rig.admit(5, 10, credit=2) for _ in range(2)]
    rig.drain()
    other = rig.admit(5, 4)
    rig.drain()
    assert rig.streams[other].finish == "length"
    for request in slow:
        rig.grant(request, 50)
    rig.drain()
    assert [len(rig.delivered(request)) for request in slow] == [10, 10]
    rig.assert_clean()


def test_a_slot_without_credit_gives_way_after_a_while_when_others_run(
    make_rig: MakeRig, depth: int
) -> None:
    rig = make_rig(depth=depth, max_slots=2)
    slow, running, waiting = rig.admit(5, 10, credit=2), rig.admit(5, 100), rig.admit(5, 4)
    for _ in range(30):
        rig.step()
    assert rig.streams[waiting].finish == "length"
    assert rig.streams[running].finish is None and len(rig.delivered(slow)) == 2


def test_a_request_whose_tokens_were_all_delivered_before_ends_at_once(make_rig: MakeRig) -> None:
    rig = make_rig()
    full = rig.admit(5, 3, emitted=[1, 2, 3])
    stopped = rig.admit(5, 9, emitted=[1, STOP], stop_ids=(STOP,))
    assert rig.streams[full].finish == "length" and rig.streams[stopped].finish == "stop"
    assert not rig.core.live and not rig.turn()


def test_emitted_tokens_count_and_the_request_goes_on_behind_them(
    make_rig: MakeRig, depth: int
) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 6, emitted=[901, 902])
    rig.drain()
    assert rig.delivered(request)[:2] == [901, 902] and len(rig.delivered(request)) == 6
    assert rig.core.counters.emitted_tokens == 4


def test_each_request_gets_its_own_logprobs(make_rig: MakeRig, depth: int) -> None:
    rig = make_rig(depth=depth)
    first, second, third = (rig.admit(5, 1) for _ in range(3))
    rig.turn()
    plain = rig.results.popleft()
    ones = column([0, 0])
    rig.receive(
        StepResult(
            incarnation=2,
            epoch=plain.epoch,
            step=plain.step,
            slots=plain.slots,
            generations=plain.generations,
            token_counts=plain.token_counts,
            token_ids=plain.token_ids,
            drafts_run=plain.drafts_run,
            logprobs=Logprobs(
                tokens=column([0, 2]),
                chosen=b"aaaabbbb",
                ranks=column([4, 5]),
                counts=column([0, 2]),
                top_ids=column([8, 9]),
                top_values=bytes(ones),
            ),
        )
    )
    own = rig.streams[third].logprobs[0]
    assert own is not None and own.tokens == column([0]) and own.chosen == b"bbbb"
    assert own.ranks == column([5]) and own.top_ids == column([8, 9])
    other = rig.streams[first].logprobs[0]
    assert other is not None and other.chosen == b"aaaa" and other.top_ids == b""
    assert rig.streams[second].logprobs == [None]


@pytest.mark.parametrize("waits", [True, False])
def test_a_deadline_ends_a_request_that_waits_and_one_that_runs(
    make_rig: MakeRig, depth: int, waits: bool
) -> None:
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


def test_stats_are_sent_a_few_times_a_second_and_the_last_ones_always(make_rig: MakeRig) -> None:
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


def test_before_the_worker_has_spoken_requests_wait(make_rig: MakeRig) -> None:
    rig = make_rig(worker=False)
    request = rig.admit(5, 3)
    rig.step()
    assert rig.plans == [] and rig.delivered(request) == []
    rig.start_worker()
    rig.drain()
    assert len(rig.delivered(request)) == 3


def test_on_start_it_asks_gateway_and_worker(make_rig: MakeRig) -> None:
    rig = make_rig()
    asked = Resync(incarnation=1, actor="scheduler")
    assert rig.worker.sent == [asked] and rig.asked == [asked]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"proposer": "ngram"}, "scheduler.proposer"),
        ({"draft_tokens": 3}, "scheduler.draft_tokens"),
        ({"depth": 0}, "scheduler.depth"),
        ({"max_chunk": 0}, "scheduler.max_chunk"),
        ({"max_batch_tokens": -1}, "scheduler.max_batch_tokens"),
        ({"max_waiting": 0}, "scheduler.max_waiting"),
    ],
)
def test_options_it_cannot_serve_are_refused_by_name(
    make_rig: MakeRig, options: dict[str, Any], named: str
) -> None:
    SchedulerConfig(**options)
    with pytest.raises(ConfigError, match=named):
        make_rig(**options)
