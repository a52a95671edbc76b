"""The inside of a child process: holds the life-line, beats, runs its cell, and never outlives the engine."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import anyio
from anyio.abc import TaskGroup

from optimist.actors import slices
from optimist.actors.runtime.death import by_exception
from optimist.actors.runtime.host import Build, Host, Outside
from optimist.actors.runtime.lifeline import DUMP_SIGNAL, TO_CHILD, LifeLine, ToChild
from optimist.actors.runtime.memory import give_back
from optimist.messages.control import (
    Beat,
    Drain,
    Drained,
    Dropped,
    Fault,
    Hello,
    Progress,
    Ready,
    Restarted,
    Start,
    Stop,
    SyncCheck,
)
from optimist.messages.errors import EngineEnded, OptimistError
from optimist.messages.requests import Placed
from optimist.transport.base import EndOfInbox
from optimist.transport.descriptors import allow_open_files
from optimist.transport.links import Links

BEAT_SECONDS = 1.0
_DRAIN_LOOK_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1
_ORPHANED = 3

Report = Callable[[Progress], None]
Begin = Callable[[Start, Report], Build]
"""Makes the builder of a cell's actors from what the supervisor says."""


def main(arguments: Sequence[str], begin: Begin) -> NoReturn:
    """Be the child process that `Process` started, with its arguments: cell, life-line, parent."""
    cell, line, parent = arguments
    die_with_parent(int(parent))
    slices.short()
    allow_open_files()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.register(DUMP_SIGNAL, all_threads=True)
    life_line: LifeLine[ToChild] = LifeLine(socket.socket(fileno=int(line)), TO_CHILD)
    uvloop = find_spec("uvloop") is not None
    try:
        anyio.run(_Cell(cell, life_line, begin).run, backend_options={"use_uvloop": uvloop})
    except BaseException:  # noqa: BLE001 - the process ends, and says why
        traceback.print_exc()
        leave(1)
    leave(0)


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when the thread that started it ends; end now if it has.

    Linux only. Elsewhere the end of the life-line serves, which waits for the GIL.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        leave(_ORPHANED)


def concerns_worker(message: ToChild) -> bool:
    """Whether the worker is to know: it waits for the drafts of a proposer that lives."""
    return isinstance(message, Fault | Restarted) and message.actor == "proposer"


def leave(status: int) -> NoReturn:
    """End at once: no thread, device library or exit handler can keep this process."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


class _Cell:
    """One run of a cell: its actors, its beat, and an ear on the life-line."""

    def __init__(self, name: str, line: LifeLine[ToChild], begin: Begin) -> None:
        self._name = name
        self._line = line
        self._begin = begin
        self._life = 0
        self._asked = False

    async def run(self) -> None:
        self._line.send(Hello(incarnation=0, cell=self._name, pid=os.getpid()))
        start = await self._next()
        if not isinstance(start, Start):
            leave(1)
        self._life = start.life
        sys.path.extend(path for path in start.path if path not in sys.path)
        with Links() as links:
            outside = Outside(links, Path(start.directory), self._line.send)
            host = Host(start.actors, self._begin(start, self._line.send), outside)
            async with anyio.create_task_group() as group:
                group.start_soon(self._beat, host)
                group.start_soon(self._listen, host, start.actors, group)
                async with anyio.create_task_group() as lives:
                    for actor in start.actors:
                        lives.start_soon(self._live, host, actor)
                group.cancel_scope.cancel()

    async def _live(self, host: Host, actor: str) -> None:
        def ready() -> None:
            give_back()
            detail = host.actors[actor].detail
            self._line.send(Ready(incarnation=self._life, actor=actor, detail=detail))

        try:
            await host.live(actor, self._life, ready)
            if not self._asked:
                raise EngineEnded(f"{actor} ended without being asked to")
        except Exception as error:  # noqa: BLE001 - whatever an actor raises is its death
            if not isinstance(error, OptimistError):
                traceback.print_exc()
            death = by_exception(actor, error)
            self._line.send(
                Fault(incarnation=self._life, actor=actor, reason=death.reason, kind=death.kind)
            )
            leave(1)

    async def _listen(self, host: Host, actors: tuple[str, ...], group: TaskGroup) -> None:
        """Do as the supervisor says: the last actor that started is the first to stop."""
        while True:
            match await self._next():
                case Stop():
                    self._asked = True
                    for actor in reversed(actors):
                        host.end(actor)
                case (Fault() | Restarted() | Dropped() | Drain() | Placed()) as message:
                    host.tell("gateway", message)
                    if concerns_worker(message):
                        host.tell("worker", message)
                    if isinstance(message, Drain):
                        group.start_soon(self._see_drained, host)
                case SyncCheck() as message:
                    host.tell("worker", message)
                case Start():
                    leave(1)

    async def _see_drained(self, host: Host) -> None:
        while (gateway := host.actors.get("gateway")) is None or not gateway.drained:
            await anyio.sleep(_DRAIN_LOOK_SECONDS)
        self._line.send(Drained(incarnation=self._life))

    async def _next(self) -> ToChild:
        while True:
            try:
                await self._line.wait()
            except EndOfInbox:
                leave(_ORPHANED)
            if (message := self._line.receive_nowait()) is not None:
                return message

    async def _beat(self, host: Host) -> None:
        """Beat while every actor gets on: one that was busy with the same at the last beat does not."""
        last = time.perf_counter()
        while True:
            busy = [actor.busy_since for actor in host.actors.values()]
            if all(since is None or since > last for since in busy):
                last = time.perf_counter()
                dropped = host.take_dropped()
                self._line.send(Beat(incarnation=self._life, cell=self._name, dropped=dropped))
            await anyio.sleep(BEAT_SECONDS)
