"""Everything that dies with the device: slots, blocks, cache and the steps in flight."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from optimist.actors.scheduler.blocks import BlockPool
from optimist.actors.scheduler.prefix_cache import Digest, PrefixCache
from optimist.actors.scheduler.request import Request
from optimist.actors.scheduler.slots import Ints, Rows, Slots
from optimist.messages.base import Column
from optimist.messages.plans import Plan
from optimist.messages.results import Capacity, StepResult


@dataclass(slots=True)
class Flight:
    """A step that was planned and has not settled.

    slots: every row, [R]. prefill: the prefill rows, [P]; ends: their tokens with KV after it, [P].
    sampling: the rows that end in new tokens, [S], decode rows first; drafts: planned for them, [S].
    asked: drafts that were asked for, of the same rows, however many came, [S].
    slots_column, generations_column: the sampling rows as they come back in a StepResult.
    result: when it came before that of an earlier step.
    """

    step: int
    plan: Plan
    slots: Rows
    prefill: Rows
    ends: Ints
    sampling: Rows
    drafts: Ints
    asked: Ints
    slots_column: Column
    generations_column: Column
    result: StepResult | None = None


class Epoch:
    """One life of the device, as the scheduler sees it.

    number: the newest incarnation among scheduler and worker. worker: its incarnation.
    context_limit: tokens of one request at most: the model's limit, or what all blocks together hold,
    since the last token needs no KV. closed: slots left since the last plan. left: slots, and the
    generations in them, that requests left, for whoever drafts for them. waiting: requests that have gone back
    to the queue since the last plan. trial: who is alone in the last step that was planned, None otherwise;
    told: of whom the gateway thinks so.
    """

    def __init__(self, number: int, capacity: Capacity, digest: Digest | None = None) -> None:
        self.number = number
        self.worker = capacity.incarnation
        self.capacity = capacity
        self.block_size = capacity.block_size
        self.context_limit = min(
            capacity.max_model_len, capacity.num_blocks * capacity.block_size + 1
        )
        self.cache = PrefixCache(capacity.block_size, digest)
        self.pool = BlockPool(capacity.num_blocks, self.cache)
        self.slots = Slots(capacity.max_slots)
        self.flights: deque[Flight] = deque()
        self.closed: list[int] = []
        self.left: list[tuple[int, int]] = []
        self.waiting: list[int] = []
        self.trial: Request | None = None
        self.told: Request | None = None
        self.next_step = 0

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold so many tokens."""
        return -(-tokens // self.block_size)
