"""What a device waited for, from times that a test dictates."""

from __future__ import annotations

from optimist.actors.worker.core import Times
from optimist.actors.worker.device_clock import DeviceClock


class Clock:
    """Says what the test sets, in seconds."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_batch_that_was_there_before_the_device_was_free_has_been_waited_for_by_nobody() -> None:
    clock = Clock()
    device = DeviceClock(clock)
    device.came()
    device.begin()
    device.came()
    clock.now = 103.0
    device.end()
    clock.now = 103.5
    device.begin()
    clock.now = 105.5
    assert device.end() == Times(step_us=2_000_000, gap_us=500_000)


def test_the_gap_is_the_batchs_until_it_came_and_the_drafts_while_they_were_waited_for() -> None:
    clock = Clock()
    device = DeviceClock(clock)
    clock.now = 101.0
    device.came()
    since, clock.now = 101.25, 103.25
    device.waited_for_drafts(since)
    clock.now = 104.0
    device.begin()
    clock.now = 105.0
    made = device.end()
    assert made == Times(1_000_000, gap_us=4_000_000, batch_us=1_000_000, drafts_us=2_000_000)


def test_steps_that_overlap_are_timed_one_behind_the_other() -> None:
    clock = Clock()
    device = DeviceClock(clock)
    device.came()
    device.came()
    device.begin()
    device.begin()
    assert device.busy_since == 100.0
    clock.now = 102.0
    assert device.end().step_us == 2_000_000
    assert device.busy_since == 102.0
    clock.now = 103.0
    assert device.end() == Times(1_000_000)
    assert device.busy_since is None
