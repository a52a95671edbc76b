"""What drafts would have been worth stands for probes, which cost the time that drafts are waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scheduler_rig import Rig, drafting, drafts, make_rig

from optimist.actors.scheduler.draft_length import LONGEST_PAUSE, SELDOM, DraftLength
from optimist.actors.scheduler.slots import Ints
from optimist.messages.base import column
from optimist.messages.drafting import Rehearsed

TOLD = 16
"""steps between two rehearsals"""


def whole(*values: int) -> Ints:
    return np.array(values, np.int32)


def simulated(rate: Callable[[int], float], rows: int, steps: int = 1600) -> tuple[float, int]:
    """Times as fast as without drafts, and steps that waited for some.

    A step takes 7 ms, 70 us for each token, and 1 ms where drafts are waited for. rate: of drafts that are
    right, in each step. Every TOLD steps rows without drafts are rehearsed.
    """
    rng, length = np.random.default_rng(5), DraftLength(rows, "auto")
    slots, room, tokens, took, waits = np.arange(rows), np.full(rows, 100, np.int32), 0, 0, 0
    for slot in range(rows):
        length.open(slot)
    for step in range(steps):
        wanted = 0 * room if length.skips() else length.lengths(slots, room)
        right = (rng.random((rows, 16)) < rate(step)).cumprod(1).sum(1)
        run = np.minimum(right, wanted).astype(np.int32)
        step_us, waited = int(7_000 + 70 * (rows + wanted.sum())), 1_000 if wanted.any() else None
        length.settle(slots, wanted, run, wanted)
        length.ran(rows + int(wanted.sum()), step_us, wanted, waited)
        tokens, took = tokens + rows + int(run.sum()), took + step_us + (waited or 0)
        waits += waited is not None
        if step % TOLD == 0 and not wanted.any():
            good = rng.binomial(TOLD, rate(step), rows).astype(np.int32)
            length.rehearsed(slots, 0 * room + TOLD, 0 * room + TOLD, 0 * room + TOLD, good)
    return tokens / took / rows * (7_000 + 70 * rows), waits


@pytest.mark.parametrize("rows", [1, 8])
def test_where_drafts_are_hopeless_nobody_waits_to_find_out(rows: int) -> None:
    speed, waits = simulated(lambda step: 0.03, rows)
    assert waits < TOLD
    assert speed > 0.995


@pytest.mark.parametrize("rows", [1, 8])
def test_where_they_begin_to_pay_that_is_seen_at_once(rows: int) -> None:
    late, _ = simulated(lambda step: 0.9 * (step >= 800), rows)
    never, _ = simulated(lambda step: 0.9, rows)
    assert late > 0.97 * (1 + never) / 2


def test_one_rehearsal_is_enough_either_way_and_without_one_there_are_probes() -> None:
    length, slot, room = DraftLength(1, "auto"), np.array([0]), whole(8)
    for _ in range(60):
        length.ran(1, 1000, whole(0))
        length.ran(2, 1150, whole(1))
        length.settle(slot, whole(4), whole(0))
    for _ in range(8):
        length.rehearsed(slot, whole(16), whole(16), whole(16), whole(0))
        assert [int(length.lengths(slot, room)[0]) for _ in range(16)] == [0] * 16
        assert length.skips()
    length.rehearsed(slot, whole(2), whole(2), whole(16), whole(15))
    assert not length.skips() and length.lengths(slot, room)[0] > 2
    for _ in range(8):
        length.rehearsed(slot, whole(16), whole(16), whole(16), whole(0))
    found = [int(length.lengths(slot, room)[0]) for _ in range(4 * LONGEST_PAUSE)]
    assert not any(found[:LONGEST_PAUSE]) and any(found)


def test_steps_are_skipped_for_a_while_only_and_never_when_something_was_learnt() -> None:
    length, slots, room = DraftLength(3, "auto"), np.arange(3), whole(8, 8, 8)
    none, skipped = whole(0, 0, 0), list[int]()
    for _ in range(60):
        length.ran(3, 7_000, none)
        length.ran(6, 7_500, none + 1, 500)
        length.settle(slots, none + 4, none, none + 4)
    for _ in range(20):
        skipped.append(0)
        assert not length.lengths(slots, room).any()
        while length.skips():
            skipped[-1] += 1
        length.rehearsed(slots, none + 16, none + 16, none + 16, none)
        assert not length.skips()
    assert set(skipped[1:]) == {SELDOM - 1}
    length.lengths(slots, room)
    length.open(1)
    assert not length.skips()


def rehearsed(rig: Rig, **changes: Any) -> Rehearsed:
    """Of the only request of a rig: each draft would have been right."""
    assert rig.core.device is not None
    fields: dict[str, Any] = {
        "incarnation": 3,
        "epoch": rig.core.device.epoch.number,
        "slots": column([0]),
        "generations": column([0]),
        **dict.fromkeys(("asked", "offered", "drafted", "accepted"), column([16])),
    }
    return Rehearsed(**fields | changes)


def hopeless() -> tuple[Rig, int]:
    """A rig in which drafts have been tried in vain, and none are planned; and its ignored messages."""
    rig = drafting(drafts="auto")
    rig.device.script = lambda request, room: (room, 0)
    rig.admit(5, 60)
    for _ in range(30):
        rig.step()
    assert drafts(rig.plans[-1]) == [0]
    return rig, rig.core.counters.ignored["stale_rehearsal"]


def test_a_request_that_was_rehearsed_well_gets_drafts_in_the_next_step() -> None:
    rig, before = hopeless()
    rig.receive(rehearsed(rig))
    rig.step()
    assert drafts(rig.plans[-1])[0] > 1
    assert rig.core.counters.ignored["stale_rehearsal"] == before
    rig.drain()
    rig.assert_clean()


@pytest.mark.parametrize(
    "changes",
    [
        {"epoch": 99},
        {"generations": column([1])},
        {"slots": column([1])},
        {"slots": column([2**31 - 1])},
    ],
    ids=["another epoch", "another request", "an empty slot", "no slot"],
)
def test_what_is_of_another_request_is_counted_and_changes_nothing(changes: dict[str, Any]) -> None:
    rig, before = hopeless()
    rig.receive(rehearsed(rig, **changes))
    rig.step()
    assert drafts(rig.plans[-1]) == [0]
    assert rig.core.counters.ignored["stale_rehearsal"] == before + 1


def test_where_nobody_drafts_or_no_device_is_there_it_is_of_no_use() -> None:
    news = rehearsed(drafting())
    for rig in (make_rig(), make_rig(worker=False)):
        rig.receive(news)
        assert rig.core.counters.ignored["stale_rehearsal"] == 1
