"""Mistakes planted on purpose: MATRIX or the simulation must turn red for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from planted import RED, Planted, each, turns_red

from optimist.actors.builder import actor as builder_actor
from optimist.actors.builder.apply import apply
from optimist.actors.scheduler import core as scheduler_core
from optimist.actors.scheduler.admission import Admission
from optimist.actors.scheduler.departures import Departures
from optimist.actors.scheduler.growth import Growth
from optimist.actors.scheduler.planner import Planner
from optimist.actors.scheduler.prefix_cache import Entry, PrefixCache
from optimist.actors.scheduler.request import FAR, Request, request_of
from optimist.actors.scheduler.settle import Settlement
from optimist.actors.scheduler.sheet import Sheet
from optimist.actors.worker.base import Executor, Outcome
from optimist.actors.worker.core import StepOrder, Verdict
from optimist.messages.base import Column, ints, size
from optimist.messages.batches import Batch, ExactBatch
from optimist.messages.plans import Plan
from optimist.messages.requests import Admit
from optimist.testing.conformance import check_parts
from optimist.testing.integer_model import IntegerExecutor
from optimist.testing.integer_rows import Longs, StepRows
from optimist.testing.late_device import LateDevice, LateTicket
from optimist.testing.matrix import cells, pairwise
from optimist.testing.outcomes import Sampled
from optimist.testing.setup import OURS, Parts, Setup

FEW = pairwise(cells())


def check(parts: Parts = OURS) -> None:
    check_parts(parts, every=FEW, seeds=40)


def on(device: type[IntegerExecutor], *, checked: bool = False) -> Parts:
    """Our actors on a device that is wrong and does not notice."""

    def made(setup: Setup, seed: int) -> Executor:
        inner = device(setup.limits(), setup.model, checked=checked)
        return LateDevice(inner, lateness=setup.lateness, seed=seed)

    return OURS._replace(device=made)


def test_without_a_mistake_everything_is_green() -> None:
    check(on(IntegerExecutor))


class WrongLength(IntegerExecutor):
    """Takes a row for one token longer than it is, once in eight tokens."""

    def _ends(self, rows: StepRows, batch: Batch) -> Longs:
        ends = super()._ends(rows, batch)
        ends[ends % 8 == 0] += 1
        return ends


class StaleBlock(IntegerExecutor):
    """Keeps the table row of a request that has left, where the next one is not longer."""

    def _assign(self, slot: int, offset: int, blocks: NDArray[np.int32]) -> None:
        stale = self.left.get(slot)
        super()._assign(slot, offset, blocks)
        if stale is not None and offset < len(stale) and stale[offset] != self.cache.unset:
            self.table[slot, offset] = stale[offset]

    def _close(self, closed: Column) -> None:
        self.left = getattr(self, "left", {}) | {
            slot: self.table[slot].copy() for slot in ints(closed).tolist()
        }
        super()._close(closed)


class NoiseByStep(IntegerExecutor):
    """Keys the noise with its own count of tokens, not with the position."""

    drawn = 0

    def _verify(
        self, row: int, slot: int, position: int, drafts: list[int], folds: list[int]
    ) -> Sampled:
        self.drawn += 1
        return super()._verify(row, slot, position, drafts, [fold + self.drawn for fold in folds])


class ReadsAhead(LateDevice):
    """Does not wait for its results."""

    def wait_for(self, ticket: LateTicket) -> Outcome:
        return ticket.buffers


@pytest.mark.parametrize("device", [WrongLength, StaleBlock, NoiseByStep])
def test_a_device_that_is_wrong_turns_it_red(device: type[IntegerExecutor]) -> None:
    with pytest.raises(RED):
        check(on(device))


def test_results_that_nobody_waited_for_turn_it_red() -> None:
    def made(setup: Setup, seed: int) -> Executor:
        inner = IntegerExecutor(setup.limits(), setup.model)
        return ReadsAhead(inner, lateness=setup.lateness, seed=seed)

    with pytest.raises(RED):
        check(OURS._replace(device=made))


def phase_by_shape(plan: Plan, *, block_size: int, incarnation: int) -> Batch:
    """Takes a prompt chunk of one token for a decode row."""
    batch = apply(plan, block_size=block_size, incarnation=incarnation)
    if isinstance(batch, ExactBatch) and batch.max_query_len == 1:
        rows = size(batch.slots)
        return msgspec.structs.replace(batch, num_decodes=rows, draft_counts=bytes(4 * rows))
    return batch


def frees_early(self: Departures, slot: int) -> None:
    """Gives a slot and its blocks back while steps in flight still name them."""
    steps = self._epoch.slots.steps
    steps[slot], kept = 0, steps[slot]
    ORIGINAL_SETTLE(self, slot)
    steps[slot] = kept


ORIGINAL_SETTLE: Callable[[Departures, int], None] = Departures.settle


def frees_blocks_early(self: Departures, slot: int) -> None:
    """Gives only the blocks back, and keeps its books in order."""
    slots = self._epoch.slots
    if slots.steps[slot]:
        self._epoch.pool.release(slots.blocks[slot])
        slots.blocks[slot] = []
    ORIGINAL_LEAVE(self, slot)


ORIGINAL_LEAVE: Callable[[Departures, int], None] = vars(Departures)["_leave"]


def repeats_after_preemption(self: Departures, slot: int) -> None:
    """A preempted request comes back with its last token twice."""
    request = self._epoch.slots.requests[slot]
    ORIGINAL_SETTLE(self, slot)
    if request is not None and request.slot < 0 and len(request.tokens) > request.prompt_len:
        request.tokens = np.append(request.tokens, request.tokens[-1:])


def lens_of_settled(self: Planner, sheet: Sheet) -> None:
    """Takes the settled length for the current one."""
    ORIGINAL_DECODE(self, sheet)
    sheet.decode_lens = self._epoch.slots.settled[sheet.decode]
    self._epoch.slots.computed[sheet.decode] = sheet.decode_lens


ORIGINAL_DECODE: Callable[[Planner, Sheet], None] = vars(Planner)["_decode"]


def finishes_in_flight(self: Settlement, rows: Any, counts: Any, grid: Any) -> Any:
    """Ends a request on tokens that have not settled."""
    cut = ORIGINAL_CUT(self, rows, counts, grid)
    slots = self._epoch.slots
    most = slots.settled[rows] + cut.keep + slots.max_in_flight[rows]
    early = np.flatnonzero(most >= slots.token_limit[rows]).tolist()
    return cut._replace(finish=dict.fromkeys(early, "length") | cut.finish)


ORIGINAL_CUT: Callable[[Settlement, Any, Any, Any], Any] = vars(Settlement)["_cut"]


def any_prefix(self: PrefixCache, parent: object, digest: bytes, tokens: bytes) -> Entry | None:
    """Finds a block by its own tokens, whatever stands before them."""
    return next((e for e in self._entries.values() if e.tokens == tokens), None)


def whole_prompt(self: Admission, request: Request) -> list[Entry]:
    """Takes the whole prompt from the cache, so that nothing is left to compute."""
    if not request.use_cache:
        return []
    blocks = len(request.tokens) // self._epoch.block_size
    digests = self._epoch.cache.digests(request.digests, request.tokens, request.salt, blocks)
    return self._epoch.cache.match(digests, request.tokens, request.salt, blocks)


def too_far(self: Growth, slot: int, count: int, sheet: Sheet) -> None:
    """Puts a new block one place too far into the table."""
    held = self._epoch.slots.blocks[slot]
    blocks = [self._epoch.pool.take() for _ in range(count)]
    sheet.give(slot, len(held) + 1, blocks)
    held.extend(blocks)
    self._epoch.slots.room[slot] += count * self._epoch.block_size


def without_credit(admit: Admit, arrival: int) -> Request:
    """Never stops for a client that is behind."""
    request = request_of(admit, arrival)
    request.credit_limit = FAR
    return request


def runs_again(self: StepOrder, epoch: int, step: int) -> Verdict:
    """Runs a step that it has run."""
    if epoch == self.epoch and step == self.step - 1:
        return Verdict.RUN
    return ORIGINAL_JUDGE(self, epoch, step)


ORIGINAL_JUDGE: Callable[[StepOrder, int, int], Verdict] = StepOrder.judge

PLANTED: Planted = [
    (builder_actor, "apply", phase_by_shape),
    (Departures, "settle", frees_early),
    (Departures, "_leave", frees_blocks_early),
    (Departures, "settle", repeats_after_preemption),
    (Planner, "_decode", lens_of_settled),
    (Settlement, "_cut", finishes_in_flight),
    (PrefixCache, "find", any_prefix),
    (Admission, "_hits", whole_prompt),
    (Growth, "_give", too_far),
    (scheduler_core, "request_of", without_credit),
    (StepOrder, "judge", runs_again),
]


@each(PLANTED)
def test_a_mistake_in_an_actor_turns_it_red(owner: Any, name: str, mistake: Any) -> None:
    turns_red(check, owner, name, mistake)
