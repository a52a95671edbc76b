"""Early refusal: how many may wait, and what a refused one is told."""

from __future__ import annotations

from scheduler_rig import Rig, make_rig

from optimist.messages.errors import Problem


def problem_of(rig: Rig, request: int) -> Problem | None:
    retired = rig.streams[request].retired
    return retired.problem if retired is not None else None


def test_one_more_than_may_wait_is_refused_at_once(depth: int) -> None:
    rig = make_rig(depth=depth, max_slots=2, max_waiting=3)
    requests = [rig.admit(5, 3) for _ in range(6)]
    problem = problem_of(rig, requests[5])
    assert problem is not None and problem.code == "overloaded"
    assert problem.retry_after is not None and 0.1 <= problem.retry_after <= 30
    rig.drain()
    assert [len(rig.delivered(request)) for request in requests] == [3] * 5 + [0]
    assert len(rig.delivered(rig.admit(5, 3))) == 0
    rig.drain()
    rig.assert_clean()


def test_prompt_tokens_that_wait_are_bounded_too() -> None:
    rig = make_rig(depth=1, max_slots=1, max_waiting_tokens=30)
    running, first, second, third = (rig.admit(n, 3) for n in (20, 9, 9, 1))
    assert [problem_of(rig, r) is None for r in (running, first, second, third)] == [
        True,
        True,
        False,
        True,
    ]
    rig.turn()
    assert problem_of(rig, rig.admit(20, 3)) is None
    rig.drain()
    rig.assert_clean()


def test_whoever_can_run_at_once_is_not_refused() -> None:
    rig = make_rig(depth=1, max_slots=2, max_waiting_tokens=1, max_waiting=1)
    requests = [rig.admit(20, 3) for _ in range(2)]
    assert [problem_of(rig, request) for request in requests] == [None, None]


def test_requests_of_an_earlier_life_are_never_refused() -> None:
    rig = make_rig(worker=False, max_slots=1, max_waiting=1)
    early = [rig.admit(5, 3) for _ in range(4)]
    rig.start_worker()
    streaming = rig.admit(5, 3, emitted=[900_000])
    refused = rig.admit(5, 3)
    assert [problem_of(rig, request) for request in [*early, streaming]] == [None] * 5
    assert problem_of(rig, refused) is not None
    rig.drain()
    rig.assert_clean()


def test_the_advice_to_retry_follows_the_pace_of_admission() -> None:
    def advice(seconds: float) -> float:
        rig = make_rig(depth=1, max_slots=1, max_waiting=1)
        for _ in range(40):
            rig.admit(5, 1)
            rig.drain()
            rig.now += seconds
        rig.admit(5, 1)
        rig.admit(5, 1)
        problem = problem_of(rig, rig.admit(5, 1))
        assert problem is not None and problem.retry_after is not None
        return problem.retry_after

    assert advice(0.001) == 0.1
    assert 4.5 < advice(5.0) < 5.5
    assert advice(1000.0) == 30.0
