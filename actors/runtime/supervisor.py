"""Carries out the policy: starts the children, notices deaths, restarts, and stops all of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import count

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.lowlevel import checkpoint_if_cancelled

from optimist.actors.runtime.children import Child
from optimist.actors.runtime.death import Death, broken, by_exception, start_error
from optimist.actors.runtime.policy import GiveUp, Policy, Restart, Tree, stop_order
from optimist.messages.control import Fault, Restarted
from optimist.messages.errors import EngineBroken

_log = logging.getLogger("optimist")

Tell = Callable[[Fault | Restarted], None]


class Supervisor:
    """Keeps the children of a tree alive.

    tell: told every Fault, and Restarted when a lost actor is ready again. spokesman: the child that
    stays when the others are given up, so that it can say so. start_timeout: seconds in which each
    life must become ready. broken: why the engine has given up; `ended` is set then, and by `stop`.

    `start` once, `stop` at the end. The lives run in `group`, which nothing here cancels: cancelling
    it kills every child at once.
    """

    def __init__(
        self,
        tree: Tree,
        children: Iterable[Child],
        group: TaskGroup,
        tell: Tell,
        *,
        start_timeout: float,
        spokesman: str = "gateway",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.broken: EngineBroken | None = None
        self.ended = anyio.Event()
        self.restarts = 0
        self._tree = tree
        self._policy = Policy(tree)
        self._children = {child.name: child for child in children}
        self._group = group
        self._tell = tell
        self._start_timeout = start_timeout
        self._spokesman = spokesman
        self._clock = clock
        self._incarnations = count(1)
        self._lives: dict[str, _Life] = {}
        self._started = False
        self._stopping = False
        self._settled = anyio.Event()
        self._turn = anyio.Lock() if tree.strategy == "rest_for_one" else nullcontext()

    async def start(self) -> None:
        """Start all children in order and return when every one is ready.

        They come up side by side: each asks its peers for what it needs. Raises the first failure:
        ConfigError or ModelError as the child raised it, EngineBroken for anything else.
        """
        for branch in self._tree.branches:
            await self._launch(branch.name)
        await self._settled.wait()
        # Who is cancelled hears of that, and not of lives that end for the same reason.
        await checkpoint_if_cancelled()
        for life in self._lives.values():
            if life.ended.is_set():
                death = life.death or Death(life.child.name, "it ended without being asked to")
                raise start_error(death) from death.cause
        self._started = True

    async def stop(self) -> None:
        """Stop all children, the last that started first, each within its limit, then by force."""
        self._stopping = True
        for step in stop_order(self._tree):
            await self._stop(step.name, step.limit)
        self.ended.set()

    async def _launch(self, name: str) -> None:
        """Begin a new life. The child has been started, though it is not ready, on return."""
        life = _Life(self._children[name], next(self._incarnations), first=not self._started)
        self._lives[name] = life
        await self._group.start(self._run, life, name=f"optimist {name} {life.incarnation}")

    async def _run(self, life: _Life, *, task_status: TaskStatus[None]) -> None:
        task_status.started()
        try:
            with life.scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._watch_start, life)
                    life.death = await life.run()
                    group.cancel_scope.cancel()
        finally:
            life.ended.set()
            self._look()
        if self._started and not self._stopping and not life.unwanted:
            self._died(life)

    async def _watch_start(self, life: _Life) -> None:
        """Say when the life is ready, and end it when it is not in time."""
        with anyio.move_on_after(self._start_timeout):
            await life.ready.wait()
        if not life.ready.is_set():
            life.child.abort(f"was not ready within {self._start_timeout:g} s")
            return
        self._look()
        if not life.first:
            for actor in life.child.actors:
                _log.info("%s is ready again", actor)
                self._tell(Restarted(incarnation=0, actor=actor))

    def _look(self) -> None:
        """Let `start` go on when all are ready, or one has failed."""
        lives = self._lives.values()
        complete = len(lives) == len(self._tree.branches)
        if any(life.ended.is_set() for life in lives) or (
            complete and all(life.ready.is_set() for life in lives)
        ):
            self._settled.set()

    def _died(self, life: _Life) -> None:
        death = life.death or Death(life.child.name, "it ended without being asked to")
        _log.warning("%s died: %s", death.actor, death.text)
        for actor in life.child.actors:
            self._tell(Fault(incarnation=0, actor=actor, reason=death.reason, kind=death.kind))
        match self._policy.died(life.child.name, self._clock()):
            case Restart() as decision:
                for name in decision.stop:
                    self._lives[name].unwanted = True
                self._group.start_soon(self._restart, decision)
            case GiveUp(why):
                self._give_up(broken(death, why), death.actor)

    async def _restart(self, decision: Restart) -> None:
        async with self._turn:
            limits = {step.name: step.limit for step in stop_order(self._tree)}
            for name in decision.stop:
                await self._stop(name, limits[name])
            await anyio.sleep(decision.delay)
            for name in decision.start:
                # Another decision may have started it since.
                if self._lives[name].ended.is_set() and not self._stopping:
                    self.restarts += 1
                    await self._launch(name)

    def _give_up(self, error: EngineBroken, actor: str) -> None:
        self.broken, self._stopping = error, True
        _log.error("%s", error)
        self._tell(Fault(incarnation=0, actor=actor, reason=error.problem.message, final=True))
        self._group.start_soon(self._wind_down)

    async def _wind_down(self) -> None:
        for step in stop_order(self._tree):
            if self._spokesman not in self._children[step.name].actors:
                await self._stop(step.name, step.limit)
        self.ended.set()

    async def _stop(self, name: str, limit: float) -> None:
        life = self._lives.get(name)
        if life is None or life.ended.is_set():
            return
        life.unwanted = True
        life.child.ask_to_stop()
        with anyio.move_on_after(limit):
            await life.ended.wait()
        life.scope.cancel()
        await life.ended.wait()


class _Life:
    """One life of a child. first: it belongs to the start of the engine.

    unwanted: it has been told to stop, so its end is no death.
    """

    def __init__(self, child: Child, incarnation: int, *, first: bool) -> None:
        self.child = child
        self.incarnation = incarnation
        self.first = first
        self.scope = anyio.CancelScope()
        self.ready = anyio.Event()
        self.ended = anyio.Event()
        self.death: Death | None = None
        self.unwanted = False

    async def run(self) -> Death | None:
        """Live. What cannot even be started is a death as well."""
        try:
            return await self.child.live(self.incarnation, self.ready.set)
        except Exception as error:  # noqa: BLE001 - whatever it is, the policy decides on it
            return by_exception(self.child.name, error)
