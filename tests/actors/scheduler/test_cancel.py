"""Cancellation, wherever the request stands."""

from __future__ import annotations

import pytest
from scheduler_rig import make_rig


def test_cancelled_in_any_order_with_two_steps_in_flight() -> None:
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


def test_a_request_cancelled_during_its_last_step_says_cancelled(depth: int) -> None:
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
def test_cancellation_on_every_path(depth: int, when: str) -> None:
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


def test_added_cancelled_and_added_again_in_one_burst(depth: int) -> None:
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
