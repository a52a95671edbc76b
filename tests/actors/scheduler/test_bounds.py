"""What is remembered is bounded."""

from __future__ import annotations

from scheduler_rig import GREEDY

from optimist.actors.scheduler.counters import STATS_INTERVAL, Pace
from optimist.actors.scheduler.deadlines import Deadlines
from optimist.actors.scheduler.recently import REMEMBERED, Recently
from optimist.actors.scheduler.request import Request, request_of
from optimist.messages.base import column
from optimist.messages.requests import Admit


def request(number: int, deadline: float | None = None) -> Request:
    admit = Admit(
        incarnation=1,
        request=number,
        prompt_ids=column([1]),
        max_tokens=1,
        sampling=GREEDY,
        credit=1,
        deadline=deadline,
    )
    return request_of(admit, number)


def test_deadlines_pass_in_order_and_once() -> None:
    deadlines = Deadlines()
    requests = [request(i, deadline) for i, deadline in enumerate((5.0, 3.0, None, 4.0))]
    for each in requests:
        deadlines.add(each)
    assert deadlines.wait(1.0) == 2.0
    assert deadlines.passed(2.9) == []
    assert deadlines.passed(4.0) == [requests[1], requests[3]]
    assert deadlines.passed(4.0) == [] and deadlines.wait(9.0) == 0.0


def test_a_request_that_ended_is_not_watched() -> None:
    deadlines = Deadlines()
    ended = request(1, 5.0)
    deadlines.add(ended)
    deadlines.remove(ended)
    assert deadlines.wait(0.0) is None and deadlines.passed(9.0) == []


def test_far_deadlines_of_ended_requests_do_not_pile_up() -> None:
    deadlines = Deadlines()
    for number in range(5_000):
        each = request(number, 1e9)
        deadlines.add(each)
        deadlines.remove(each)
    assert len(deadlines) < 200


def test_only_the_latest_ended_requests_are_remembered_and_each_once() -> None:
    recently = Recently()
    for number in range(REMEMBERED + 10):
        recently.add(request(number))
    assert recently.take(9) is None
    taken = recently.take(10)
    assert taken is not None and taken.id == 10 and recently.take(10) is None


def test_stats_wait_for_a_change_and_for_the_interval() -> None:
    pace = Pace()
    assert not pace.due(0.0) and pace.wait(0.0) is None
    pace.changed()
    assert pace.due(0.0) and not pace.due(0.0)
    pace.changed()
    assert not pace.due(STATS_INTERVAL / 2) and pace.wait(STATS_INTERVAL / 2) == STATS_INTERVAL / 2
    assert pace.due(STATS_INTERVAL)
