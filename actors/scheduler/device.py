"""One life of the device, and the policies that work on it."""

from __future__ import annotations

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
from optimist.messages.results import Capacity


class Device:
    """What a Capacity of a new worker begins."""

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
