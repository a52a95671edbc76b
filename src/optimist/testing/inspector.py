"""Looks into our own scheduler between events: its invariants, and blocks that it has freed."""

from __future__ import annotations

from typing import Any

import numpy as np

from optimist.actors.scheduler.actor import Scheduler
from optimist.actors.scheduler.epoch import Epoch
from optimist.testing.late_device import LateDevice
from optimist.testing.world import World


class Inspector:
    """After each turn of the scheduler: check it, and poison on the device what it has freed.

    A freed block may be written again by its next owner, and read by nobody before. So a block that
    comes back too early changes tokens. A scheduler of somebody else is left alone.
    """

    def __init__(self, world: World, *, check: bool) -> None:
        self._world = world
        self._check = check
        self._free: set[int] = set()
        self._of: Epoch | None = None
        world.turned.append(self._turned)

    def _turned(self, actor: Any) -> None:
        if not isinstance(actor, Scheduler):
            return
        if self._check:
            actor.check()
            actor.check_busy()
        if actor.core.device is not None:
            self._poison(actor.core.device.epoch)

    def _poison(self, epoch: Epoch) -> None:
        free = set(epoch.pool.census()[0])
        known = self._free if self._of is epoch else set()
        self._of, self._free = epoch, free
        device = self._world.device
        if isinstance(device, LateDevice) and free - known:
            device.poison(epoch.number, np.array(sorted(free - known)))
