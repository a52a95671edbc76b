"""Which blocks the cache learns about, and when: on settled counts only."""

from __future__ import annotations

from optimist.actors.scheduler.epoch import Epoch
from optimist.actors.scheduler.prefix_cache import Parent
from optimist.actors.scheduler.request import Request
from optimist.actors.scheduler.slots import Chain, Ints, Rows


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
        slots, size, pool = self._epoch.slots, self._epoch.block_size, self._epoch.pool
        request, tokens = slots.request(slot), slots.tokens[slot]
        chain = self._whole(slots.chains[slot])
        blocks = int(slots.kv[slot]) // size
        digests = self._epoch.cache.digests(request.digests, tokens, request.salt, blocks)
        parent: Parent = chain.tail.serial if chain.tail else request.salt
        for i in range(chain.offered, blocks):
            own, block = tokens[i * size : (i + 1) * size].tobytes(), slots.blocks[slot][i]
            chain.tail = pool.register(parent, digests[i], own, block)
            chain.foreign |= chain.tail.block != block
            parent = chain.tail.serial
        chain.offered, chain.evictions, chain.cuts = blocks, pool.evictions, pool.cuts
        slots.chains[slot] = chain
        slots.next_offer[slot] = (blocks + 1) * size

    def _whole(self, chain: Chain) -> Chain:
        """The chain, or a new one from the first block on where an entry of it may be gone."""
        pool = self._epoch.pool
        evicted = chain.foreign and chain.evictions != pool.evictions
        return Chain() if evicted or chain.cuts != pool.cuts else chain

    def _known(self, request: Request) -> Ints:
        if request.slot < 0:
            return request.tokens
        slots = self._epoch.slots
        return slots.tokens[request.slot, : slots.settled[request.slot]]
