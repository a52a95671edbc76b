"""The order in which waiting requests are served."""

from __future__ import annotations

import pytest

from optimist.actors.scheduler.queue import OVERTAKE_BOUND, Queue
from optimist.actors.scheduler.request import Request, request_of
from optimist.messages.base import column
from optimist.messages.requests import Admit
from optimist.messages.slots import Sampling


class Arrivals:
    """Requests in order of arrival."""

    def __init__(self) -> None:
        self._count = 0

    def next(self, priority: int = 0, credit: int = 10) -> Request:
        self._count += 1
        admit = Admit(
            incarnation=1,
            request=self._count,
            prompt_ids=column([1, 2, 3]),
            max_tokens=5,
            sampling=Sampling(temperature=0.0, seed=0),
            priority=priority,
            credit=credit,
        )
        return request_of(admit, self._count)


@pytest.fixture
def arrivals() -> Arrivals:
    return Arrivals()


def ids(queue: Queue) -> list[int]:
    return [queue.pop().id for _ in range(len(queue))]


def test_equal_priorities_are_served_in_order_of_arrival(arrivals: Arrivals) -> None:
    queue = Queue()
    for _ in range(5):
        queue.push(arrivals.next())
    assert ids(queue) == [1, 2, 3, 4, 5]


def test_smaller_priorities_are_served_first(arrivals: Arrivals) -> None:
    queue = Queue()
    for priority in (2, 0, 1, 0):
        queue.push(arrivals.next(priority))
    assert ids(queue) == [2, 4, 3, 1]


def test_a_request_that_comes_back_takes_its_old_place(arrivals: Arrivals) -> None:
    queue = Queue()
    for _ in range(3):
        queue.push(arrivals.next())
    first = queue.pop()
    queue.push(arrivals.next())
    queue.push(first)
    assert ids(queue) == [1, 2, 3, 4]


def test_a_request_is_overtaken_by_so_many_later_ones_and_no_more(arrivals: Arrivals) -> None:
    queue = Queue()
    patient = arrivals.next(priority=9)
    queue.push(patient)
    overtakers = 0
    while True:
        queue.push(arrivals.next(priority=0))
        if queue.pop() is patient:
            break
        overtakers += 1
    assert overtakers == OVERTAKE_BOUND


def test_overdue_requests_come_in_order_of_arrival_whatever_their_priority(
    arrivals: Arrivals,
) -> None:
    queue = Queue()
    patient = [arrivals.next(priority=p) for p in (9, 5, 7)]
    for request in patient:
        queue.push(request)
    for _ in range(OVERTAKE_BOUND):
        queue.push(arrivals.next(priority=0))
        queue.pop()
    queue.push(arrivals.next(priority=0))
    assert [queue.pop() for _ in range(3)] == patient


def test_overtaking_is_remembered_over_a_preemption(arrivals: Arrivals) -> None:
    queue = Queue()
    patient = arrivals.next(priority=9)
    queue.push(patient)
    for _ in range(OVERTAKE_BOUND):
        queue.push(arrivals.next(priority=0))
        queue.pop()
    assert queue.pop() is patient
    queue.push(patient)
    queue.push(arrivals.next(priority=0))
    assert queue.pop() is patient


def test_a_request_without_credit_neither_blocks_nor_is_overtaken(arrivals: Arrivals) -> None:
    queue = Queue()
    parked = arrivals.next(priority=0, credit=0)
    queue.push(parked)
    assert not queue.has_ready() and queue.head() is None and len(queue) == 1
    queue.push(arrivals.next(priority=3))
    assert queue.pop().id == 2 and parked.overtaken == 0
    parked.credit_limit += 1
    queue.credited(parked)
    assert queue.pop() is parked


def test_credit_for_a_request_that_is_not_parked_changes_nothing(arrivals: Arrivals) -> None:
    queue = Queue()
    request = arrivals.next()
    queue.credited(request)
    assert len(queue) == 0
    queue.push(request)
    queue.credited(request)
    assert ids(queue) == [1]


def test_removed_requests_are_gone_from_order_and_sums(arrivals: Arrivals) -> None:
    queue = Queue()
    requests = [arrivals.next(credit=c) for c in (1, 1, 0)]
    for request in requests:
        queue.push(request)
    assert queue.prompt_tokens == 9
    assert queue.remove(requests[0]) and queue.remove(requests[2])
    assert not queue.remove(requests[0])
    assert queue.prompt_tokens == 3
    assert ids(queue) == [2] and queue.prompt_tokens == 0


def test_cancelled_requests_deep_in_the_order_do_not_pile_up(arrivals: Arrivals) -> None:
    queue = Queue()
    queue.push(arrivals.next(priority=0))
    for _ in range(5_000):
        request = arrivals.next(priority=5)
        queue.push(request)
        queue.remove(request)
    assert queue.statistics().entries < 500
    assert ids(queue) == [1]
