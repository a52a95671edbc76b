"""One life of the device, and the policies that work on it."""

from __future__ import annotations

import numpy as np

from optimist.actors.config import SchedulerConfig
from optimist.actors.proposer.kinds import IN_PASSES
from optimist.actors.scheduler.counters import Counters
from optimist.actors.scheduler.departures import Departures
from optimist.actors.scheduler.draft_length import DraftLength
from optimist.actors.scheduler.epoch import Epoch
from optimist.actors.scheduler.planner import Planner
from optimist.actors.scheduler.prefix_cache import Digest
from optimist.actors.scheduler.queue import Queue
from optimist.actors.scheduler.registry import Registry
from optimist.actors.scheduler.settle import Settlement
from optimist.messages.base import ints
from optimist.messages.drafting import Rehearsed
from optimist.messages.results import Capacity


class Device:
    """What a Capacity of a new worker begins.

    Its epoch's number is its own even when the Capacity of a worker that has died since comes first: that
    one lived after this scheduler began, so whoever replaced it has a higher incarnation than both.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        incarnation: int,
        capacity: Capacity,
        queue: Queue,
        counters: Counters,
        digest: Digest | None,
    ) -> None:
        number = max(incarnation, capacity.incarnation)
        speculates = config.proposer != "none"
        self.epoch = epoch = Epoch(number, capacity, digest)
        self.length = (
            DraftLength(
                capacity.max_slots, config.draft_tokens, passes=config.proposer in IN_PASSES
            )
            if speculates
            else None
        )
        self.departures = departures = Departures(epoch, queue, counters)
        self.registry = Registry(epoch)
        self.planner = Planner(config, epoch, queue, departures, counters, incarnation, self.length)
        self.settlement = Settlement(
            epoch, departures, self.registry, counters, incarnation, self.length
        )

    def rehearsed(self, news: Rehearsed) -> bool:
        """What drafts would have been worth to requests that had none. False where it is of no use."""
        if self.length is None or news.epoch != self.epoch.number:
            return False
        slots = ints(news.slots).astype(np.intp)
        named = np.minimum(slots, self.epoch.slots.count - 1)
        there = (named == slots) & self.epoch.slots.active[named]
        there &= self.epoch.slots.generation[named] == ints(news.generations)
        counts = (news.asked, news.offered, news.drafted, news.accepted)
        self.length.rehearsed(slots[there], *(ints(count)[there] for count in counts))
        return bool(there.any())
