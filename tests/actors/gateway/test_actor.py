from __future__ import annotations

from typing import Any

import pytest

from optimist.actors.gateway.chunks import Chunk, complete
from optimist.messages.base import column, ints
from optimist.messages.control import Drain, Fault, Restarted, Resync
from optimist.messages.errors import (
    DeadlineExceeded,
    EngineBroken,
    EngineClosed,
    EngineEnded,
    MailboxFull,
    Overloaded,
    Problem,
    RequestFailed,
)
from optimist.messages.requests import Admit, Grant, Retired, SchedulerStats, Tokens
from optimist.testing.byte_tokenizer import EOS


def text(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def test_tokens_of_a_finished_or_unknown_request_are_counted(bench: Any) -> None:
    made = bench("hello")
    made.gateway.receive(Tokens(incarnation=1, request=1, index=0, token_ids=column([1])))
    made.gateway.receive(Retired(incarnation=1, request=1))
    assert made.gateway.counts.stale == 2


def test_repeated_tokens_are_dropped_and_a_gap_fails_the_request_by_name(bench: Any) -> None:
    made = bench("unused")
    stream = made.open()
    (request,) = made.scheduler.requests

    def tokens(index: int, ids: bytes) -> None:
        made.gateway.receive(
            Tokens(incarnation=1, request=request, index=index, token_ids=column(ids))
        )

    tokens(0, b"abc")
    tokens(1, b"bcd")
    tokens(0, b"ab")
    tokens(4, b"e")
    tokens(6, b"xyz")
    chunk = stream.take_nowait()
    assert chunk is not None and chunk.text == "abcde"
    with pytest.raises(RequestFailed, match="expected index 5, got 6"):
        stream.take_nowait()
    assert made.gateway.counts.gaps == 1
    assert [cancel.request for cancel in made.scheduler.cancels] == [request]


def test_a_request_that_fails_delivers_what_it_has_and_then_raises(bench: Any) -> None:
    made = bench("hello")
    stream = made.open(params={"n": 2})
    made.step(2)
    problem = Problem(code="deadline_exceeded", message="too late")
    first, second = made.scheduler.requests
    made.gateway.receive(Retired(incarnation=1, request=first, problem=problem))
    assert [stream.take_nowait().text for _ in range(2)] == ["he", "he"]
    with pytest.raises(DeadlineExceeded, match="too late"):
        stream.take_nowait()
    assert [cancel.request for cancel in made.scheduler.cancels] == [second]


def test_retired_without_a_problem_is_a_cancelled_ending(bench: Any) -> None:
    made = bench("hello")
    stream = made.open()
    (request,) = made.scheduler.requests
    made.gateway.receive(Retired(incarnation=1, request=request))
    assert made.drain(stream)[-1].finish_reason == "cancelled"


def test_after_a_resync_every_request_goes_on_behind_what_was_delivered(bench: Any) -> None:
    made = bench("hello world", credit=6)
    stream = made.open()
    made.step(4)
    first = stream.take_nowait()
    made.step(1)
    made.gateway.receive(made.scheduler.restart())
    readmitted: Admit = made.scheduler.admits[-1]
    assert bytes(ints(readmitted.emitted_ids).tolist()) == b"hello"
    assert ints(readmitted.prompt_ids).tolist() == list(b"hi")
    assert readmitted.request == made.scheduler.admits[0].request
    assert readmitted.credit == 5
    chunks = [first, *made.drain(stream, tokens=2)]
    assert text(chunks) == "hello world"
    assert complete(chunks).token_ids == (*b"hello world", EOS)


def test_messages_of_a_scheduler_that_was_replaced_are_ignored(bench: Any) -> None:
    made = bench("hello")
    stream = made.open()
    late = made.scheduler.step(3)
    made.gateway.receive(made.scheduler.restart())
    for message in late:
        made.gateway.receive(message)
    made.gateway.receive(Resync(incarnation=1, actor="scheduler"))
    assert made.gateway.counts.stale == 2
    assert text(made.drain(stream)) == "hello"


def test_the_second_life_of_a_request_that_ended_is_cancelled(bench: Any) -> None:
    made = bench("hello")
    stream = made.open()
    (request,) = made.scheduler.requests
    made.gateway.receive(made.scheduler.restart())
    assert text(made.drain(stream)) == "hello"
    assert [cancel.request for cancel in made.scheduler.cancels] == [request]


def test_a_cancelled_request_is_not_readmitted(bench: Any) -> None:
    made = bench("hello")
    made.open().close()
    made.gateway.receive(made.scheduler.restart())
    assert made.scheduler.requests == ()


def test_one_request_too_many_is_refused_early_and_n_counts(bench: Any) -> None:
    made = bench("hello", max_requests=3)
    first = made.open(params={"n": 2})
    with pytest.raises(Overloaded) as refused:
        made.open(params={"n": 2})
    assert refused.value.problem.retry_after == 1.0
    second = made.open()
    first.close()
    second.close()
    assert made.gateway.counts.refused == 1


def test_a_full_scheduler_inbox_refuses_the_request_and_leaves_nothing(bench: Any) -> None:
    made = bench("hello")
    admitted: list[Admit] = []

    def send(message: Any) -> None:
        if isinstance(message, Admit) and len(admitted) == 1:
            raise MailboxFull("full")
        admitted.append(message)

    made.scheduler.send = send
    with pytest.raises(Overloaded):
        made.open(params={"n": 2})
    assert made.gateway.live == 0
    assert [type(message).__name__ for message in admitted] == ["Admit", "Cancel"]


def test_credit_for_a_full_inbox_is_sent_later(bench: Any) -> None:
    made = bench("x" * 10, credit=2)
    stream, send = made.open(), made.scheduler.send
    made.step(2)

    def full(_: Any) -> None:
        raise MailboxFull("full")

    made.scheduler.send = full
    assert stream.take_nowait().text == "xx"
    made.scheduler.send = send
    made.gateway.turn()
    assert [grant.credit for grant in made.scheduler.grants] == [2]
    stream.close()


def test_draining_finishes_what_runs_and_refuses_what_is_new(bench: Any) -> None:
    made = bench("hello")
    stream = made.open()
    made.gateway.receive(Drain(incarnation=9))
    with pytest.raises(EngineEnded, match="draining"):
        made.open()
    assert text(made.drain(stream)) == "hello"
    assert made.gateway.live == 0


def test_a_lost_actor_turns_health_red_until_it_is_back(bench: Any) -> None:
    made = bench("hello")
    made.gateway.receive(Fault(incarnation=9, actor="worker", reason="killed by signal 9"))
    health = made.gateway.health()
    assert not health.healthy and "worker is lost: killed by signal 9" in health.reason
    made.gateway.receive(Restarted(incarnation=9, actor="worker"))
    assert made.gateway.health().healthy


def test_a_lost_proposer_is_no_illness(bench: Any) -> None:
    made = bench("hello")
    made.gateway.receive(Fault(incarnation=9, actor="proposer", reason="killed by signal 9"))
    assert made.gateway.health().healthy and made.gateway.health().accepting


def test_an_actor_lost_for_good_ends_every_request_by_name(bench: Any) -> None:
    made = bench("hello")
    stream = made.open()
    made.step(2)
    made.gateway.receive(Fault(incarnation=9, actor="worker", reason="exit 3", final=True))
    assert stream.take_nowait().text == "he"
    for _ in range(2):
        with pytest.raises(EngineBroken, match="worker was lost for good: exit 3"):
            stream.take_nowait()
    with pytest.raises(EngineBroken):
        made.open()
    assert not made.gateway.health().healthy


def test_ending_the_gateway_ends_requests_with_the_first_reason(bench: Any) -> None:
    made = bench("hello")
    stream = made.open()
    made.gateway.end(EngineClosed("closed by you"))
    made.gateway.end(EngineEnded("later"))
    with pytest.raises(EngineClosed, match="closed by you"):
        stream.take_nowait()


def test_no_step_for_long_is_unhealthy_only_while_a_request_could_get_on(bench: Any) -> None:
    made = bench("hello world", credit=4)
    made.now += 1000
    made.gateway.turn()
    assert made.gateway.health().healthy
    stream = made.open()
    made.now += 1000
    assert "no step for 1000 s" in made.gateway.health().reason
    made.step(4)
    made.now += 1000
    assert made.gateway.health().healthy
    stream.close()


def test_at_its_start_it_asks_how_things_stand(bench: Any) -> None:
    made = bench("hello")
    made.gateway.started()
    assert made.scheduler.sent == [Resync(incarnation=7, actor="gateway")]


def test_stats_are_the_schedulers_latest(bench: Any) -> None:
    made = bench("hello")
    assert made.gateway.stats().steps == 0
    made.gateway.receive(
        SchedulerStats(
            incarnation=1,
            waiting=1,
            running=2,
            free_blocks=3,
            num_blocks=4,
            steps=5,
            preemptions=0,
            prompt_tokens=0,
            cached_tokens=0,
            emitted_tokens=0,
            wasted_tokens=0,
            last_step_at=made.now,
            max_model_len=64,
        )
    )
    stats = made.gateway.stats()
    assert (stats.waiting, stats.running, stats.free_blocks) == (1, 2, 3)
    assert (stats.num_blocks, stats.steps, stats.healthy) == (4, 5, True)
    assert made.gateway.max_model_len == 64


def test_an_unknown_message_is_counted_and_nothing_else(bench: Any) -> None:
    made = bench("hello")
    made.gateway.receive(Grant(incarnation=1, request=1, credit=1))
    assert made.gateway.counts.unknown == 1


def test_request_numbers_differ_between_incarnations(bench: Any) -> None:
    made = bench("hello")
    stream = made.open()
    assert made.scheduler.requests[0] >> 32 == 7
    stream.close()
