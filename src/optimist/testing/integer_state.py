"""What the integer model's device holds for each slot between steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.actors.worker.base import Limits
from optimist.messages.base import Column, ints
from optimist.messages.batches import Batch
from optimist.messages.slots import BlockDelta, OpenedSlot
from optimist.testing.integer_cache import IntegerCache, Violation
from optimist.testing.integer_rows import StepRows

UNKNOWN = -1
"""the last sampled token of a slot that has sampled none"""


class IntegerState:
    """By slot: tokens computed and known, token ids, the last sampled one, block table; and the KV.

    checked: what contradicts it raises Violation. Otherwise it wins, and the tokens tell.
    """

    def __init__(self, limits: Limits, *, checked: bool) -> None:
        self.limits = limits
        self.cache = IntegerCache(limits.num_blocks, limits.block_size, checked=checked)
        self.checked = checked
        self.reset()

    def reset(self) -> None:
        """Forget every slot; the block table has version 0."""
        slots, length = self.limits.max_slots, self.limits.max_model_len
        width = -(-length // self.limits.block_size)
        self.version = 0
        self.computed = np.zeros(slots, np.int64)
        self.known = np.zeros(slots, np.int64)
        self.tokens = np.zeros((slots, length + 1), np.int64)
        self.last = np.full(slots, UNKNOWN, np.int64)
        self.table = np.full((slots, width), self.cache.unset, np.int32)
        self.opened: dict[int, OpenedSlot] = {}
        self.cache.poison()

    def move(self, batch: Batch) -> None:
        """Requests leave slots, others move in, and the block table changes."""
        self._close(batch.closed)
        for opened in batch.opened:
            self._open(opened)
        self._apply(batch.blocks)

    def check_slots(self, rows: StepRows) -> None:
        """Raise Violation unless every row is of the request in its slot, and no slot has two."""
        slots = rows.slots.tolist()
        self.require(len(set(slots)) == len(slots), "slots: a slot has two rows")
        for slot, generation in zip(slots, rows.generations.tolist(), strict=True):
            opened = self.opened.get(slot)
            self.require(opened is not None, f"slots: slot {slot} is not open")
            self.require(
                opened is not None and opened.generation == generation,
                f"slots: slot {slot} is not of generation {generation}",
            )

    def require(self, good: bool, message: str) -> None:
        """Raise Violation with this message when it is checked and not good."""
        if self.checked and not good:
            raise Violation(message)

    def _close(self, closed: Column) -> None:
        for slot in ints(closed).tolist():
            self.require(slot in self.opened, f"closed: slot {slot} is not open")
            self.opened.pop(slot, None)
            self.computed[slot] = self.known[slot] = 0
            self.last[slot] = UNKNOWN
            self.table[slot] = self.cache.unset

    def _open(self, opened: OpenedSlot) -> None:
        slot, tokens = opened.slot, ints(opened.token_ids)
        self.require(slot not in self.opened, f"opened: slot {slot} is already open")
        self.require(
            opened.cached_len < len(tokens) and opened.cached_len % self.limits.block_size == 0,
            f"opened: slot {slot} has {len(tokens)} tokens, of them {opened.cached_len} cached",
        )
        self.opened[slot] = opened
        self.computed[slot], self.known[slot] = opened.cached_len, len(tokens)
        self.tokens[slot, : len(tokens)] = tokens

    def _apply(self, delta: BlockDelta) -> None:
        self.require(
            delta.version == self.version + 1,
            f"blocks: version {delta.version} came to a table of version {self.version}",
        )
        self.version = delta.version
        slots, offsets, counts = ints(delta.slots), ints(delta.offsets), ints(delta.counts)
        blocks, start = ints(delta.blocks), 0
        for slot, offset, count in zip(slots, offsets, counts, strict=True):
            self._assign(int(slot), int(offset), blocks[start : start + count])
            start += count

    def _assign(self, slot: int, offset: int, blocks: NDArray[np.int32]) -> None:
        self.require(slot in self.opened, f"blocks: slot {slot} is not open")
        self.require(
            bool((self.table[slot, offset : offset + len(blocks)] == self.cache.unset).all()),
            f"blocks: an entry of slot {slot} from {offset} is already set",
        )
        self.table[slot, offset : offset + len(blocks)] = blocks
        cached = self.opened[slot].cached_len // self.limits.block_size
        self.cache.poison(blocks[max(0, cached - offset) :])
