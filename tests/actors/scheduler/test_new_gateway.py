"""A gateway dies and another one speaks: nobody reads the requests of the first."""

from __future__ import annotations

from optimist.actors.config import SchedulerConfig
from optimist.actors.scheduler.core import Core
from optimist.messages.base import column
from optimist.messages.requests import Admit
from optimist.messages.slots import Sampling


def admit(request: int, incarnation: int) -> Admit:
    return Admit(
        incarnation=incarnation,
        request=request,
        prompt_ids=column([1, 2, 3]),
        max_tokens=4,
        sampling=Sampling(temperature=0.0, seed=0),
        credit=1,
    )


def test_the_first_request_of_a_newer_gateway_ends_those_of_the_older_one() -> None:
    core = Core(SchedulerConfig(), 1)
    for request in (10, 11):
        core.admit(admit(request, incarnation=4))
    assert core.admit(admit(20, incarnation=7)) == []
    assert list(core.live) == [20]
    core.check()


def test_the_same_gateway_ends_nothing() -> None:
    core = Core(SchedulerConfig(), 1)
    for request in (10, 11):
        core.admit(admit(request, incarnation=4))
    assert list(core.live) == [10, 11]


def test_what_an_older_gateway_sent_late_is_ignored() -> None:
    core = Core(SchedulerConfig(), 1)
    core.admit(admit(20, incarnation=7))
    core.admit(admit(10, incarnation=4))
    assert list(core.live) == [20]
    assert core.counters.ignored["stale_admit"] == 1
