"""Mistakes of speculation, planted on purpose: MATRIX with drafts or the simulation must turn red for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from planted import RED, Planted, each, turns_red

from optimist.actors.scheduler import settle as scheduler_settle
from optimist.actors.scheduler.brought import Brought
from optimist.actors.scheduler.epoch import Flight
from optimist.actors.scheduler.growth import Growth
from optimist.actors.scheduler.planner import Planner
from optimist.actors.scheduler.settle import Settlement
from optimist.actors.scheduler.sheet import Sheet
from optimist.messages.batches import Batch, OptimisticBatch
from optimist.messages.results import StepResult
from optimist.testing.conformance import check_parts
from optimist.testing.integer_model import IntegerExecutor
from optimist.testing.integer_rows import Longs, StepRows
from optimist.testing.late_device import LateDevice
from optimist.testing.matrix import cells, pairwise
from optimist.testing.setup import OURS, Parts, Setup, integer_device

FEW = pairwise(cells(["right", "wrong", "first-1", "first-2", "end-1", "device-first-1"]))


def check(parts: Parts = OURS) -> None:
    check_parts(parts, every=FEW, seeds=80)


def test_without_a_mistake_everything_is_green() -> None:
    check()


class ExactIsBound(IntegerExecutor):
    """Takes the bound for the length."""

    def _ends(self, rows: StepRows, batch: Batch) -> Longs:
        ends = super()._ends(rows, batch)
        if isinstance(batch, OptimisticBatch):
            ends[: rows.num_decodes] = batch.bound.sizing_array(reader="a mistake")
        return ends


class NoRejected(IntegerExecutor):
    """Counts rejected drafts as computed."""

    def _advanced(self, ends: Longs, rejected: Longs) -> Longs:
        return ends


class AcceptsAll(IntegerExecutor):
    """Counts one rejected draft as accepted."""

    def _advanced(self, ends: Longs, rejected: Longs) -> Longs:
        return ends - np.maximum(rejected - 1, 0)


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "by its tokens alone"])
@pytest.mark.parametrize("device", [ExactIsBound, NoRejected, AcceptsAll])
def test_a_device_that_is_wrong_turns_it_red(device: type[IntegerExecutor], checked: bool) -> None:
    def made(setup: Setup, seed: int) -> LateDevice:
        late = integer_device(setup, seed)
        assert isinstance(late, LateDevice) and isinstance(late.inner, IntegerExecutor)
        late.inner.__class__ = device
        late.inner.checked = late.inner.cache.checked = checked
        return late

    with pytest.raises(RED):
        check(OURS._replace(device=made))


def never_corrected(self: Settlement, length: Any, flight: Flight, news: Brought, us: int) -> None:
    """Leaves the planned count as if every draft had been right."""
    computed = self._epoch.slots.computed.copy()
    ORIGINAL_LEARN(self, length, flight, news, us)
    self._epoch.slots.computed[:] = computed


ORIGINAL_LEARN: Callable[..., None] = vars(Settlement)["_learn"]


def stops_at_the_last(self: Settlement, rows: Any, counts: Any, grid: Any) -> Any:
    """Looks for a stop token in the last place only."""
    hidden = grid.copy()
    hidden[np.arange(grid.shape[1]) < counts[:, None] - 1] = -2
    return ORIGINAL_CUT(self, rows, counts, hidden)


ORIGINAL_CUT: Callable[..., Any] = vars(Settlement)["_cut"]


def caches_rejected(self: Settlement, news: Brought, tokens: Any) -> Any:
    """Takes the KV of rejected drafts for that of tokens."""
    cut = ORIGINAL_APPEND(self, news, tokens)
    self._epoch.slots.kv[news.slots] += news.run + 1 - news.counts
    return cut


ORIGINAL_APPEND: Callable[..., Any] = vars(Settlement)["_append"]


def without_room(self: Growth, rows: Any, drafts: Any, sheet: Sheet) -> Any:
    """Gives blocks for the next token alone."""
    rows, _ = ORIGINAL_GROW(self, rows, np.zeros_like(drafts), sheet)
    return rows, drafts[: len(rows)]


ORIGINAL_GROW: Callable[..., Any] = Growth.grow


def past_the_ceiling(self: Planner, rows: Any) -> Any:
    """Counts the fewest tokens in flight where it should count the most."""
    slots = self._epoch.slots
    kept = slots.max_in_flight[rows]
    slots.max_in_flight[rows] = slots.min_in_flight[rows]
    drafts = ORIGINAL_DRAFTS(self, rows)
    slots.max_in_flight[rows] = kept
    return drafts


ORIGINAL_DRAFTS: Callable[..., Any] = vars(Planner)["_drafts"]


def over_budget(self: Planner, drafts: Any) -> Any:
    """Does not count drafts."""
    return drafts


def counts_twice(flight: Flight, result: StepResult) -> Brought:
    """Bills a draft that was rejected."""
    news = ORIGINAL_BROUGHT(flight, result)
    return news._replace(counts=np.minimum(news.counts + 1, 1 + news.run))


ORIGINAL_BROUGHT: Callable[[Flight, StepResult], Brought] = vars(scheduler_settle)["brought"]

PLANTED: Planted = [
    (Settlement, "_learn", never_corrected),
    (Settlement, "_cut", stops_at_the_last),
    (Settlement, "_append", caches_rejected),
    (Growth, "grow", without_room),
    (Planner, "_drafts", past_the_ceiling),
    (Planner, "_affordable", over_budget),
    (scheduler_settle, "brought", counts_twice),
]


@each(PLANTED)
def test_a_mistake_in_an_actor_turns_it_red(owner: Any, name: str, mistake: Any) -> None:
    turns_red(check, owner, name, mistake)
