"""Which blocks the cache learns about, and when: on settled counts only."""

from __future__ import annotations

from optimist.actors.scheduler.epoch import Epoch
from optimist.actors.scheduler.prefix_cache import Parent
from optimist.actors.scheduler.request import Request
from optimist.actors.scheduler.slots import Ints, Rows


class Registry:
    """Offers full blocks to the prefix cache, and takes them back behind a cut."""

    def __init__(self, epoch: Epoch) -> None:
        self._epoch = epoch

    def offer(self, rows: Rows) -> None:
        """Offer every block of these slots that steps which settled have filled.

        A block whose KV is on the device, but whose step is in flight or whose request ended before, is
        never offered: its tokens may not stand.
        """
        slots = self._epoch.slots
        full = rows[slots.kv[rows] >= slots.next_offer[rows]]
        for slot in full.tolist():
            if not slots.dropped[slot]:
                self._offer(slot)

    def forget_after(self, request: Request, tokens: int) -> None:
        """Forget every cached block of a request that reaches past so many of its leading tokens."""
        if not request.use_cache:
            return
        known = self._known(request)
        blocks = len(known) // self._epoch.block_size
        cache = self._epoch.cache
        cache.digests(request.digests, known, request.salt, blocks)
        for entry in cache.match(request.digests, known, request.salt, blocks)[
            tokens // self._epoch.block_size :
        ]:
            self._epoch.pool.unregister(entry.block)

    def _offer(self, slot: int) -> None:
        slots, size, cache = self._epoch.slots, self._epoch.block_size, self._epoch.cache
        request, tail = slots.request(slot), slots.tails[slot]
        if tail is None or not cache.is_current(tail):
            tail, slots.offered[slot] = None, 0
        blocks = int(slots.kv[slot]) // size
        tokens = slots.tokens[slot]
        digests = cache.digests(request.digests, tokens, request.salt, blocks)
        parent: Parent = tail.serial if tail else request.salt
        for i in range(int(slots.offered[slot]), blocks):
            own = tokens[i * size : (i + 1) * size].tobytes()
            tail = self._epoch.pool.register(parent, digests[i], own, slots.blocks[slot][i])
            parent = tail.serial
        slots.tails[slot] = tail
        slots.offered[slot] = blocks
        slots.next_offer[slot] = (blocks + 1) * size

    def _known(self, request: Request) -> Ints:
        if request.slot < 0:
            return request.tokens
        slots = self._epoch.slots
        return slots.tokens[request.slot, : slots.settled[request.slot]]
