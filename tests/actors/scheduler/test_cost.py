"""Running requests are columns: what a step costs, counted in calls and not in time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from scheduler_rig import Rig, make_rig


def calls(work: Callable[[], object]) -> int:
    """How many Python and C functions are called."""
    count = 0

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def decoding(requests: int) -> Rig:
    """So many requests in the middle of their decode steps, none at the end of a block."""
    rig = make_rig(
        depth=1,
        max_slots=requests,
        num_blocks=64 * requests,
        block_size=16,
        max_batch_tokens=4096,
        max_waiting=4096,
    )
    for _ in range(requests):
        rig.admit(5, 100)
    for _ in range(4):
        rig.step()
    return rig


@pytest.fixture(scope="module")
def few() -> tuple[int, int]:
    return step_of(8)


@pytest.fixture(scope="module")
def many() -> tuple[int, int]:
    return step_of(136)


def step_of(requests: int) -> tuple[int, int]:
    """Calls while one decode step is planned, and while it settles."""
    rig = decoding(requests)
    planning = calls(rig.scheduler.turn)
    plan = rig.builder.sent[-1]
    result = rig.answer(plan)
    return planning, calls(lambda: rig.scheduler.receive(result))


def test_planning_a_decode_step_costs_the_same_for_any_number_of_rows(
    few: tuple[int, int], many: tuple[int, int]
) -> None:
    assert many[0] == few[0]


def test_settling_a_row_costs_little_more_than_its_message(
    few: tuple[int, int], many: tuple[int, int]
) -> None:
    assert (many[1] - few[1]) / 128 <= 12
