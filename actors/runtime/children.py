"""The two kinds of supervised child: a process of ours, and an actor in the supervisor's own loop."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import anyio

from optimist.actors.runtime.death import Death, by_exception
from optimist.actors.runtime.host import Host
from optimist.actors.runtime.lifeline import FromChild
from optimist.actors.runtime.placement import Cell
from optimist.actors.runtime.process import Process, exit_text
from optimist.messages.base import ActorMessage
from optimist.messages.control import (
    Beat,
    Drained,
    Dropped,
    Fault,
    Hello,
    Progress,
    Ready,
    Start,
    Stop,
)
from optimist.messages.errors import MessageError
from optimist.messages.requests import Placed
from optimist.transport.base import EndOfInbox

_REAP_SECONDS = 5.0
_SILENT_SECONDS = 5.0
_LAST_WORDS_SECONDS = 1.0
_PAUSE_SECONDS = 0.3
"""after which the last words have been said"""

Report = Callable[[Progress], None]


class Child(Protocol):
    """What the supervisor starts, again and again."""

    name: str
    actors: tuple[str, ...]

    async def live(self, incarnation: int, ready: Callable[[], None]) -> Death | None:
        """One life, from start to end. Calls `ready` once, when its actors can take messages.

        Returns how it died, or None when it ended because it was asked to. Cancelling it ends it
        at once. Nothing of this life is left when it returns or raises.
        """
        ...

    def ask_to_stop(self) -> None:
        """Ask the present life to end in good order. Nothing happens when there is none."""
        ...

    def abort(self, reason: str) -> None:
        """End the present life by force; its death says the reason."""
        ...


class LocalChild:
    """An actor in the supervisor's own loop. What blocks the loop or holds a thread cannot be killed."""

    def __init__(self, host: Host, actor: str) -> None:
        self.name = actor
        self.actors: tuple[str, ...] = (actor,)
        self._host = host
        self._scope = anyio.CancelScope()
        self._asked = False
        self._aborted_for = ""

    async def live(self, incarnation: int, ready: Callable[[], None]) -> Death | None:
        """See Child."""
        self._asked, self._aborted_for = False, ""
        try:
            with anyio.CancelScope() as self._scope:
                await self._host.live(self.name, incarnation, ready)
        except Exception as error:  # noqa: BLE001 - whatever an actor raises is its death
            return by_exception(self.name, error)
        if self._aborted_for:
            return Death(self.name, self._aborted_for)
        return None if self._asked else Death(self.name, "it ended without being asked to")

    def ask_to_stop(self) -> None:
        """See Child."""
        self._asked = True
        self._host.end(self.name)

    def abort(self, reason: str) -> None:
        """See Child."""
        self._aborted_for = reason
        self._scope.cancel()


class Orders(NamedTuple):
    """What every child process of an engine is told, see Start, and how long it may be silent.

    report: is told the progress of a start. module: what the child process runs.
    """

    directory: Path
    config: bytes
    hang_timeout: float
    report: Report
    module: str = "optimist.cells"


class ProcessChild:
    """The actors of a cell in a process of their own. details: what they told when they were ready.

    drained: set when its gateway has finished what it had, after Drain.
    on_news: told of what is for the gateway.
    """

    def __init__(self, cell: Cell, orders: Orders) -> None:
        self.name, self.actors = cell
        self.details: dict[str, str] = {}
        self.drained = anyio.Event()
        self.on_news: Callable[[Dropped | Placed], None] = lambda message: None
        self._orders = orders
        self._life: _ProcessLife | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the present life."""
        return self._life.process.pid if self._life is not None else None

    async def live(self, incarnation: int, ready: Callable[[], None]) -> Death | None:
        """See Child."""
        process = Process(self.name, self._orders.module)
        life = self._life = _ProcessLife(self, process, self._orders, incarnation, ready)
        try:
            return await life.run()
        finally:
            self._life = None
            process.kill()
            with anyio.CancelScope(shield=True), anyio.move_on_after(_REAP_SECONDS):
                await process.wait()
            process.close()

    def tell_next(self, config: bytes) -> None:
        """Give later lives another configuration than this one."""
        self._orders = self._orders._replace(config=config)

    def ask_to_stop(self) -> None:
        """See Child."""
        if self._life is not None:
            self._life.ask_to_stop()

    def abort(self, reason: str) -> None:
        """See Child. The process tells first what each of its threads is doing, if it still can."""
        if self._life is not None:
            self._life.abort(reason)

    def tell(self, message: ActorMessage) -> None:
        """Send a control message. It is lost while there is no process."""
        if self._life is not None:
            self._life.process.line.send(message)


class _ProcessLife:
    """One life of a child process, seen from the supervisor."""

    def __init__(
        self,
        child: ProcessChild,
        process: Process,
        orders: Orders,
        incarnation: int,
        ready: Callable[[], None],
    ) -> None:
        self.process = process
        self._child = child
        self._orders = orders
        self._incarnation = incarnation
        self._ready = ready
        self._waiting_for = set(child.actors)
        self._fault: Fault | None = None
        self._aborted_for = ""
        self._doomed = anyio.Event()
        self._asked = False

    async def run(self) -> Death | None:
        status = -1
        async with anyio.create_task_group() as group:
            group.start_soon(self.process.words.read)
            group.start_soon(self._listen)
            group.start_soon(self._execute)
            status = await self.process.wait()
            group.cancel_scope.cancel()
        self._last_messages()
        self.process.words.read_nowait()
        return None if self._asked and status == 0 else self._death(status)

    def ask_to_stop(self) -> None:
        self._asked = True
        self.process.line.send(Stop(incarnation=0))

    def abort(self, reason: str) -> None:
        self._aborted_for = self._aborted_for or reason
        self._doomed.set()

    async def _execute(self) -> None:
        await self._doomed.wait()
        self.process.dump_threads()
        await self.process.words.pause(_PAUSE_SECONDS, within=_LAST_WORDS_SECONDS)
        self.process.kill()

    async def _listen(self) -> None:
        """Take messages until the child is gone; abort it when it is silent for too long."""
        line = self.process.line
        try:
            while True:
                limit = None if self._waiting_for else self._orders.hang_timeout
                with anyio.move_on_after(limit):
                    await line.wait()
                # After a long pause of this loop itself, what the child said meanwhile counts.
                if (message := line.receive_nowait()) is None:
                    break
                self._take(message)
            self.abort(f"gave no sign of life for {self._orders.hang_timeout:g} s")
        except EndOfInbox:
            await anyio.sleep(_SILENT_SECONDS)
            self.abort("closed its life-line and went on")
        except MessageError as error:
            self.abort(f"sent what is no control message ({error})")

    def _take(self, message: FromChild) -> None:
        match message:
            case Hello():
                self.process.line.send(self._start())
            case Ready():
                self._child.details[message.actor] = message.detail
                self._waiting_for.discard(message.actor)
                if not self._waiting_for:
                    self._ready()
            case Progress():
                self._orders.report(message)
            case Beat():
                for actor, frames in message.dropped.items():
                    dropped = Dropped(incarnation=0, actor=actor, frames=frames)
                    self._child.on_news(dropped)
            case Placed():
                self._child.on_news(message)
            case Drained():
                self._child.drained.set()
            case Fault():
                self._fault = message

    def _start(self) -> Start:
        return Start(
            incarnation=0,
            life=self._incarnation,
            actors=self._child.actors,
            directory=str(self._orders.directory),
            config=self._orders.config,
            path=tuple(path for path in sys.path if path),
        )

    def _last_messages(self) -> None:
        try:
            while (message := self.process.line.receive_nowait()) is not None:
                if isinstance(message, Fault | Placed):
                    self._take(message)
        except MessageError:
            return

    def _death(self, status: int) -> Death:
        if self._fault is not None:
            return Death(self._fault.actor, self._fault.reason, self._fault.kind)
        how = self._aborted_for or exit_text(status)
        last = self.process.words.last()
        said = f"; its last words:\n{last}" if last else ""
        return Death(self._child.name, f"process {self.process.pid} {how}{said}")
