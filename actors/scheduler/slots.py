"""Running requests as columns: one array for each property, indexed by slot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimist.actors.scheduler.prefix_cache import Entry
from optimist.actors.scheduler.request import FAR, Request

Ints = NDArray[np.int32]
Rows = NDArray[np.intp]


@dataclass(slots=True)
class Chain:
    """How far the prefix cache knows the blocks of a slot.

    tail: the entry of the last block offered. offered: how many. foreign: some of the entries are of
    equal blocks that other slots hold, so they may go before this slot does.
    evictions, cuts: of the pool, when the chain was whole.
    """

    tail: Entry | None = None
    offered: int = 0
    foreign: bool = False
    evictions: int = 0
    cuts: int = 0


class Slots:
    """Columns of shape [max_slots].

    settled: tokens that are known, prompt included. min_in_flight, max_in_flight: tokens that steps in
    flight add to them at least and at most: equal unless tokens are speculated. computed: tokens whose
    KV has been planned, every draft counted as if it were right. kv: tokens whose KV steps that settled
    have written.
    wanted: drafts that pay in the slot's next step; held: drafts that wait for it at the worker. drafted, accepted: drafts verified, and those that were right.
    steps: steps in flight that name the slot. last_step: the newest step that named it.
    room: tokens that its blocks hold. token_limit: settled never passes it; ceiling: the same for the
    context and the credit, which nothing in flight may pass either.
    active: holds a request that goes on. decoding: and all its known tokens are planned.
    leaving: the request left, or was preempted, and steps in flight still name the slot.
    dropped: whatever these steps bring is not wanted.
    request_ids, prompt_len, cached_len, generation: for the messages. stop_ids: [max_slots, W], padded
    with -1. tokens: [max_slots, W'], the first `settled` of each row are valid.

    next_offer: the kv at which another block is full and is offered to the prefix cache.

    Not columns: requests, blocks in order of position, and their chains in the prefix cache.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.settled: Ints = np.zeros(count, np.int32)
        self.min_in_flight: Ints = np.zeros(count, np.int32)
        self.max_in_flight: Ints = np.zeros(count, np.int32)
        self.computed: Ints = np.zeros(count, np.int32)
        self.kv: Ints = np.zeros(count, np.int32)
        self.wanted: Ints = np.zeros(count, np.int32)
        self.held: Ints = np.zeros(count, np.int32)
        self.drafted: Ints = np.zeros(count, np.int32)
        self.accepted: Ints = np.zeros(count, np.int32)
        self.steps: Ints = np.zeros(count, np.int32)
        self.last_step = np.zeros(count, np.int64)
        self.room: Ints = np.zeros(count, np.int32)
        self.token_limit: Ints = np.zeros(count, np.int32)
        self.ceiling: Ints = np.zeros(count, np.int32)
        self.active = np.zeros(count, np.bool_)
        self.decoding = np.zeros(count, np.bool_)
        self.leaving = np.zeros(count, np.bool_)
        self.dropped = np.zeros(count, np.bool_)
        self.request_ids = np.zeros(count, np.int64)
        self.prompt_len: Ints = np.zeros(count, np.int32)
        self.cached_len: Ints = np.zeros(count, np.int32)
        self.generation: Ints = np.zeros(count, np.int32)
        self.next_offer: Ints = np.full(count, FAR, np.int32)
        self.stop_ids: Ints = np.full((count, 1), -1, np.int32)
        self.tokens: Ints = np.zeros((count, 64), np.int32)
        self.requests: list[Request | None] = [None] * count
        self.blocks: list[list[int]] = [[] for _ in range(count)]
        self.chains: list[Chain] = [Chain() for _ in range(count)]
        self._free = list(range(count - 1, -1, -1))

    @property
    def free(self) -> int:
        """Slots that hold nothing."""
        return len(self._free)

    def request(self, slot: int) -> Request:
        """The request in a slot that holds one."""
        request = self.requests[slot]
        assert request is not None
        return request

    def running(self) -> list[int]:
        """Slots whose request goes on."""
        return np.flatnonzero(self.active).tolist()

    def open(self, request: Request, blocks: list[int], cached: int, block_size: int) -> int:
        """Move a request into a slot, with blocks for all its tokens, `cached` of them with KV.

        Mutates the request: slot, and generation + 1. `free` must not be 0.
        """
        slot = self._free.pop()
        length = len(request.tokens)
        self.tokens = _widened(self.tokens, length + 1, 0)
        self.tokens[slot, :length] = request.tokens
        self.stop_ids = _widened(self.stop_ids, len(request.stop_ids), -1)
        self.stop_ids[slot] = -1
        self.stop_ids[slot, : len(request.stop_ids)] = request.stop_ids
        self.settled[slot] = length
        self.computed[slot] = self.kv[slot] = cached
        self.room[slot] = len(blocks) * block_size
        self.token_limit[slot] = request.token_limit
        self.wanted[slot] = self.held[slot] = 0
        self.drafted[slot], self.accepted[slot] = request.drafted, request.accepted
        self.request_ids[slot] = request.id
        self.prompt_len[slot] = request.prompt_len
        self.active[slot] = True
        self.requests[slot], self.blocks[slot] = request, blocks
        request.slot = slot
        request.generation += 1
        self.generation[slot] = request.generation
        return slot

    def close(self, slot: int) -> Request:
        """Move the request out, with its tokens. No step in flight may name the slot."""
        request = self.request(slot)
        request.tokens = self.tokens[slot, : self.settled[slot]].copy()
        request.drafted, request.accepted = int(self.drafted[slot]), int(self.accepted[slot])
        request.slot = -1
        for flag in (self.active, self.decoding, self.leaving, self.dropped):
            flag[slot] = False
        self.next_offer[slot] = FAR
        self.requests[slot], self.blocks[slot], self.chains[slot] = None, [], Chain()
        self._free.append(slot)
        return request

    def append(self, rows: Rows, counts: Ints, tokens: Ints) -> None:
        """More settled tokens: so many for each of these slots, [N], row after row, [sum(counts)]."""
        at = self.settled[rows]
        ends = at + counts
        self.tokens = _widened(self.tokens, int(ends.max(initial=0)), 0)
        if len(tokens) > len(rows):
            within = np.arange(len(tokens)) - np.repeat(counts.cumsum() - counts, counts)
            self.tokens[np.repeat(rows, counts), np.repeat(at, counts) + within] = tokens
        else:
            self.tokens[rows, at] = tokens
        self.settled[rows] = ends


def _widened(table: Ints, width: int, fill: int) -> Ints:
    """The table with room for `width` columns: itself, or a copy at least twice as wide."""
    rows, old = table.shape
    if width <= old:
        return table
    wider = np.zeros((rows, max(width, 2 * old)), np.int32)
    wider[:, :old] = table
    if fill:
        wider[:, old:] = fill
    return wider
