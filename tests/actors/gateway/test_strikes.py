"""Worker and scheduler die together: the gateway alone knows who was in a step then."""

from __future__ import annotations

from typing import Any

import pytest

from optimist.messages.control import Fault, Restarted
from optimist.messages.requests import Placed


def lose(made: Any, *actors: str) -> None:
    for actor in actors:
        made.gateway.receive(Fault(incarnation=0, actor=actor, reason="killed"))


def place(made: Any, request: int, **fields: Any) -> None:
    life = made.scheduler.incarnation
    made.gateway.receive(Placed(incarnation=life, request=request, **fields))


def strikes_after_a_resync(made: Any) -> dict[int, int]:
    before = len(made.scheduler.admits)
    made.gateway.receive(made.scheduler.restart())
    return {admit.request: admit.strikes for admit in made.scheduler.admits[before:]}


@pytest.mark.parametrize("actors", [("worker", "scheduler"), ("scheduler", "worker")])
def test_who_was_in_a_step_is_struck_and_who_waits_is_not(bench: Any, actors: Any) -> None:
    made = bench("hello", credit=2)
    for _ in range(4):
        made.open()
    runs, preempted, paused, waits = made.scheduler.requests
    for request in (runs, preempted, paused):
        place(made, request)
    place(made, preempted, waits=True)
    for message in made.scheduler.step(2):
        if message.request == paused:
            made.gateway.receive(message)
    lose(made, "builder", *actors)
    assert strikes_after_a_resync(made) == {runs: 1, preempted: 0, paused: 0, waits: 0}


def test_a_second_death_counts_only_for_who_is_in_a_step_again(bench: Any) -> None:
    made = bench("hello")
    made.open()
    made.open()
    first, second = made.scheduler.requests
    for request in (first, second):
        place(made, request)
    lose(made, "worker", "scheduler")
    assert strikes_after_a_resync(made) == {first: 1, second: 1}
    place(made, first, strikes=1)
    for actor in ("worker", "scheduler"):
        made.gateway.receive(Restarted(incarnation=0, actor=actor))
    lose(made, "worker", "scheduler")
    assert strikes_after_a_resync(made) == {first: 2, second: 1}


@pytest.mark.parametrize("actor", ["worker", "scheduler"])
def test_where_one_of_them_lives_the_gateway_does_not_count(bench: Any, actor: str) -> None:
    made = bench("hello")
    made.open()
    (request,) = made.scheduler.requests
    place(made, request)
    lose(made, actor)
    made.gateway.receive(Restarted(incarnation=0, actor=actor))
    lose(made, "scheduler")
    assert strikes_after_a_resync(made) == {request: 0}


def test_what_the_scheduler_counted_is_not_forgotten_with_it(bench: Any) -> None:
    made = bench("hello")
    made.open()
    (request,) = made.scheduler.requests
    place(made, request, strikes=1)
    lose(made, "scheduler")
    assert strikes_after_a_resync(made) == {request: 1}


def test_what_a_dead_scheduler_says_of_steps_is_ignored(bench: Any) -> None:
    made = bench("hello")
    made.open()
    (request,) = made.scheduler.requests
    late = Placed(incarnation=made.scheduler.incarnation, request=request, strikes=1)
    assert strikes_after_a_resync(made) == {request: 0}
    made.gateway.receive(late)
    assert made.gateway.counts.stale == 1
    lose(made, "worker", "scheduler")
    assert strikes_after_a_resync(made) == {request: 0}


def test_while_one_is_tried_alone_nobody_else_is_struck(bench: Any) -> None:
    made = bench("hello")
    made.open()
    made.open()
    first, second = made.scheduler.requests
    place(made, first)
    place(made, second, alone=True)
    lose(made, "worker", "scheduler")
    assert strikes_after_a_resync(made) == {first: 0, second: 1}
    place(made, first, alone=True)
    place(made, first)
    place(made, second, strikes=1)
    for actor in ("worker", "scheduler"):
        made.gateway.receive(Restarted(incarnation=0, actor=actor))
    lose(made, "worker", "scheduler")
    assert strikes_after_a_resync(made) == {first: 1, second: 2}, "they run together again"


def test_a_proposer_that_dies_while_the_worker_loads_says_nothing_of_steps(bench: Any) -> None:
    made = bench("hello")
    made.open()
    (request,) = made.scheduler.requests
    lose(made, "worker", "scheduler")
    assert strikes_after_a_resync(made) == {request: 0}
    lose(made, "proposer")
    for actor in ("worker", "scheduler"):
        made.gateway.receive(Restarted(incarnation=0, actor=actor))
    place(made, request)
    lose(made, "scheduler")
    assert strikes_after_a_resync(made) == {request: 0}, "its step lives on in the worker"
