"""Who moves from the queue into a slot."""

from __future__ import annotations

import numpy as np

from optimist.actors.scheduler.counters import Counters
from optimist.actors.scheduler.departures import Departures
from optimist.actors.scheduler.epoch import Epoch
from optimist.actors.scheduler.growth import Growth
from optimist.actors.scheduler.prefix_cache import Entry
from optimist.actors.scheduler.queue import Queue
from optimist.actors.scheduler.request import FAR, Request
from optimist.actors.scheduler.sheet import Sheet
from optimist.actors.scheduler.slots import Chain


class Admission:
    """Admits the head of the queue while a slot is free and its blocks fit.

    It gets blocks for all its known tokens at once. Unless nothing runs, a block for each running
    request must remain: so between an admission and the next preemption some row fills a whole block,
    and one request is preempted at most once in `block_size` tokens that others deliver.
    """

    def __init__(
        self, epoch: Epoch, queue: Queue, departures: Departures, growth: Growth, counters: Counters
    ) -> None:
        self._epoch = epoch
        self._queue = queue
        self._departures = departures
        self._growth = growth
        self._counters = counters
        self._refused: tuple[Request, int] | None = None

    def admit(self, sheet: Sheet, *, idle: bool) -> int | None:
        """Move the head of the queue into a slot; returns the slot, None when it does not fit.

        idle: nothing else runs in this step or in flight, so that slots without credit give way at once.
        """
        request = self._queue.head()
        if request is None:
            return None
        if self._fits(request) or (self._make_room(request, idle) and self._fits(request)):
            return self._open(self._queue.pop(), sheet)
        return None

    def _fits(self, request: Request) -> bool:
        """Whether there is a slot, and blocks; remembers a no until something comes back."""
        pool = self._epoch.pool
        if self._epoch.slots.free == 0 or self._refused == (request, pool.releases):
            return False
        hits = [entry.block for entry in self._hits(request)]
        needed = self._epoch.blocks_for(len(request.tokens)) - len(hits) + pool.idle_among(hits)
        running = int(np.count_nonzero(self._epoch.slots.active))
        if pool.can_take(needed + (running + 1 if running else 0)):
            return True
        self._refused = (request, pool.releases)
        return False

    def _make_room(self, request: Request, idle: bool) -> bool:
        """Preempt slots that wait for credit if that makes room. True when it did anything."""
        slots, pool = self._epoch.slots, self._epoch.pool
        waits = self._growth.paused() if idle else self._growth.stalled()
        victims: list[int] = np.flatnonzero(waits & (slots.steps == 0)).tolist()
        victims.sort(key=lambda slot: slots.request(slot).rank)
        gain = sum(pool.exclusive(slots.blocks[slot]) for slot in victims)
        needed = self._epoch.blocks_for(len(request.tokens))
        if not victims or not (idle or pool.can_take(needed - gain)):
            return False
        while victims and not self._fits(request):
            self._departures.preempt(victims.pop())
        return True

    def _open(self, request: Request, sheet: Sheet) -> int:
        slots, pool = self._epoch.slots, self._epoch.pool
        hits = self._hits(request)
        blocks = [entry.block for entry in hits]
        for block in blocks:
            pool.share(block)
        missing = self._epoch.blocks_for(len(request.tokens)) - len(blocks)
        blocks.extend(pool.take() for _ in range(missing))
        cached = len(hits) * self._epoch.block_size
        slot = slots.open(request, blocks, cached, self._epoch.block_size)
        slots.chains[slot] = Chain(hits[-1] if hits else None, len(hits), cuts=pool.cuts)
        slots.ceiling[slot] = min(self._epoch.context_limit, request.credit_limit)
        slots.next_offer[slot] = cached + self._epoch.block_size if request.use_cache else FAR
        if request.generation == 0:
            self._count(request, cached)
        slots.cached_len[slot] = request.cached_len
        sheet.open(slot, request, cached, blocks)
        return slot

    def _hits(self, request: Request) -> list[Entry]:
        """Cached blocks to begin with; the last token is always computed, for its logits.

        None where the logits of the whole prompt are wanted.
        """
        if not request.use_cache or request.unscored:
            return []
        blocks = (len(request.tokens) - 1) // self._epoch.block_size
        cache, tokens = self._epoch.cache, request.tokens
        digests = cache.digests(request.digests, tokens, request.salt, blocks)
        return cache.match(digests, tokens, request.salt, blocks)

    def _count(self, request: Request, cached: int) -> None:
        request.cached_len = min(cached, request.prompt_len)
        if not request.given:
            self._counters.prompt_tokens += request.prompt_len
            self._counters.cached_tokens += request.cached_len
