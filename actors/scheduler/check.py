"""What must hold between any two messages. For tests: too slow for anything else."""

from __future__ import annotations

from collections import Counter

import numpy as np

from optimist.actors.config import SchedulerConfig, most_drafts
from optimist.actors.scheduler.epoch import Epoch
from optimist.actors.scheduler.queue import Queue
from optimist.actors.scheduler.request import Request
from optimist.messages.plans import OptimisticPlan


def check(
    queue: Queue, live: dict[int, Request], epoch: Epoch | None, config: SchedulerConfig
) -> None:
    """Raise AssertionError, saying which, if an invariant does not hold."""
    queued = queue.requests()
    assert len({id(r) for r in queued}) == len(queued), "a request is queued twice"
    assert sum(r.prompt_len for r in queued) == queue.prompt_tokens, "queued tokens"
    assert all(live.get(r.id) is r for r in queued), "a request that ended is queued"
    assert all(r.slot < 0 for r in queued), "a queued request holds a slot"
    if epoch is None:
        assert len(queued) == len(live), "without a device everybody waits"
        return
    slots = epoch.slots
    placed = [r for s, r in enumerate(slots.requests) if r is not None and not slots.dropped[s]]
    assert {r.id for r in [*queued, *placed]} == set(live), "a live request is nowhere"
    assert len(queued) + len(placed) == len(live), "a live request is in two places"
    assert len(epoch.flights) <= config.depth, "too many steps in flight"
    _check_pool(epoch)
    _check_steps(epoch)
    _check_counts(epoch)
    _check_drafts(epoch, config)


def check_busy(queue: Queue, epoch: Epoch | None) -> None:
    """Right after planning: if nothing is in flight, nothing that waits could run."""
    if epoch is None or epoch.flights:
        return
    slots = epoch.slots
    assert not queue.has_ready(), "nothing runs, and a request that could waits"
    paused = slots.settled >= slots.ceiling
    assert not (slots.active & ~paused).any(), "nothing runs, and a running request could"


def _check_pool(epoch: Epoch) -> None:
    pool, slots = epoch.pool, epoch.slots
    held = Counter(block for blocks in slots.blocks for block in blocks)
    free, idle, refs = pool.census()
    assert len(free) == len(set(free)), "a block is free twice"
    assert refs == {b: n for b, n in held.items()}, "references and holders differ"
    assert not (set(free) & set(idle)) and not ((set(free) | set(idle)) & set(held)), "two owners"
    assert len(free) + len(idle) + len(held) == pool.num_blocks, "a block is lost"
    cached = epoch.cache.blocks()
    assert set(idle) <= cached and not (set(free) & cached), "idle and cached differ"


def _check_steps(epoch: Epoch) -> None:
    named: Counter[int] = Counter(s for f in epoch.flights for s in f.slots.tolist())
    promised: Counter[int] = Counter(s for f in epoch.flights for s in f.sampling.tolist())
    drafts: Counter[int] = Counter()
    for flight in epoch.flights:
        drafts.update(dict(zip(flight.sampling.tolist(), flight.drafts.tolist(), strict=True)))
    slots = epoch.slots
    for slot in range(slots.count):
        assert slots.steps[slot] == named[slot], f"slot {slot}: steps in flight"
        assert slots.min_in_flight[slot] == promised[slot], f"slot {slot}: tokens in flight"
        most = promised[slot] + drafts[slot]
        assert slots.max_in_flight[slot] == most, f"slot {slot}: drafts in flight"
        assert slots.requests[slot] is not None or not named[slot], f"slot {slot}: given back early"
        assert bool(slots.leaving[slot]) <= bool(named[slot]), f"slot {slot}: leaves for ever"
    steps = [flight.step for flight in epoch.flights]
    assert steps == list(range(epoch.next_step - len(steps), epoch.next_step)), "steps in order"
    assert slots.free == sum(r is None for r in slots.requests), "free slots"


def _check_counts(epoch: Epoch) -> None:
    slots = epoch.slots
    on = slots.active
    assert np.all(slots.min_in_flight <= slots.max_in_flight), "min above max"
    assert np.all(slots.kv[on] <= slots.computed[on]), "more settled than planned"
    planned = slots.settled + slots.max_in_flight
    decoding = slots.decoding
    assert np.all(slots.computed[decoding] == planned[decoding] - 1), "decode rows are one behind"
    assert np.all(slots.computed[on] <= slots.room[on]), "tokens without a block"
    assert np.all(planned[on] <= slots.ceiling[on]), "past the context or the credit"
    assert np.all(slots.settled[on] <= slots.token_limit[on]), "past max_tokens"
    assert not (slots.leaving & slots.active).any(), "active and leaving"
    for slot in np.flatnonzero(on).tolist():
        assert slots.room[slot] == len(slots.blocks[slot]) * epoch.block_size, "room and blocks"
        request = slots.request(slot)
        assert request.slot == slot, "a request and its slot"
        assert request.unscored or slots.settled[slot] < slots.token_limit[slot], "nothing to do"


def _check_drafts(epoch: Epoch, config: SchedulerConfig) -> None:
    slots, none = epoch.slots, config.proposer == "none"
    most = 0 if none else most_drafts(config.draft_tokens)
    assert np.all(slots.accepted <= slots.drafted), "more drafts right than verified"
    for flight in epoch.flights:
        assert flight.drafts.max(initial=0) <= most, f"step {flight.step}: too many drafts"
        optimistic = isinstance(flight.plan, OptimisticPlan)
        assert optimistic == (config.depth > 1 and not none), f"step {flight.step}: kind of plan"
    if none:
        least = slots.settled + slots.min_in_flight
        assert np.all(least[slots.active] <= slots.token_limit[slots.active]), "past max_tokens"
