"""Children of a supervisor that do what the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

import anyio
import anyio.lowlevel

from optimist.actors.runtime.death import Death
from optimist.actors.runtime.policy import Backoff, Branch, Budget, Tree
from optimist.actors.runtime.supervisor import Supervisor
from optimist.messages.control import Fault, Restarted

NAMES = ("worker", "builder", "scheduler", "gateway")


class Scripted:
    """A child whose life the test ends. Every event goes into the common log."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.actors: tuple[str, ...] = (name,)
        self.log = log
        self.incarnations: list[int] = []
        self.starts_well = True
        self.starts_late = False
        self.is_ready = False
        self.stops_well = True
        self.death: Death | None = None
        self._end = anyio.Event()

    async def live(self, incarnation: int, ready: Callable[[], None]) -> Death | None:
        self.incarnations.append(incarnation)
        self.death, self._end = None, anyio.Event()
        self.log.append(f"start {self.name}")
        try:
            if self.starts_late:
                await anyio.sleep(0.05)
            if self.starts_well:
                self.is_ready = True
                ready()
            await self._end.wait()
        except anyio.get_cancelled_exc_class():
            self.log.append(f"kill {self.name}")
            raise
        self.log.append(f"end {self.name}")
        return self.death

    def ask_to_stop(self) -> None:
        self.log.append(f"ask {self.name}")
        if self.stops_well:
            self._end.set()

    def abort(self, reason: str) -> None:
        self.die(reason)

    def die(self, reason: str, kind: str = "") -> None:
        self.death = Death(self.name, reason, kind)
        self._end.set()


class Stage:
    """A supervisor, its scripted children, and what the gateway was told."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.told: list[Fault | Restarted] = []
        self.children = {name: Scripted(name, self.log) for name in NAMES}

    @asynccontextmanager
    async def supervisor(
        self,
        strategy: Literal["one_for_one", "rest_for_one"] = "one_for_one",
        restarts: int = 3,
        stop_limit: float = 5.0,
        start_timeout: float = 5.0,
    ) -> AsyncIterator[Supervisor]:
        branches = tuple(Branch(name, stop_limit, restarts=name != "gateway") for name in NAMES)
        tree = Tree(branches, Budget(restarts, 30.0), strategy, Backoff(first=0.0))
        async with anyio.create_task_group() as group:
            yield Supervisor(
                tree,
                self.children.values(),
                group,
                self.told.append,
                start_timeout=start_timeout,
            )
            group.cancel_scope.cancel()

    def __getitem__(self, name: str) -> Scripted:
        return self.children[name]


async def settled() -> None:
    """Let everything happen that needs no time. asyncio hides what waits in done callbacks."""
    for _ in range(5):
        await anyio.wait_all_tasks_blocked()
        await anyio.lowlevel.checkpoint()
