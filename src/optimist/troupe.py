"""Brings an engine's actors up in its placement, keeps them up, and leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec

from optimist.actors.config import HANG_SECONDS, INTERPRETED_SECONDS, EngineConfig
from optimist.actors.contract import check_contract
from optimist.actors.runtime.child import BEAT_SECONDS
from optimist.actors.runtime.children import Child, LocalChild, Orders, ProcessChild
from optimist.actors.runtime.host import Host, Outside
from optimist.actors.runtime.memory import give_back
from optimist.actors.runtime.placement import DISPENSABLE, STARTING_ORDER, Layout, layout
from optimist.actors.runtime.policy import Branch, Budget, Tree
from optimist.actors.runtime.rundir import run_directory
from optimist.actors.runtime.supervisor import Supervisor
from optimist.cells import Cells
from optimist.environment import check_values
from optimist.kernels import gpus
from optimist.messages.control import Drain, Progress, SyncCheck, SyncMode
from optimist.messages.errors import ConfigError, EngineBroken
from optimist.plain_words import plain_words
from optimist.post import Post
from optimist.transport.links import Links

if TYPE_CHECKING:
    from optimist.actors.gateway.actor import Gateway
    from optimist.actors.gateway.tokenizer import Tokenizer

Report = Callable[[Progress], None]

CELLS = "optimist.cells"
"""what a child process runs"""

_DRAIN_LOOK_SECONDS = 0.05


def ignore(progress: Progress) -> None:
    """A report of progress that nobody wants."""


class Troupe:
    """The running actors of one engine. gateway: its actor, None where it has its own process."""

    def __init__(
        self, supervisor: Supervisor, host: Host, children: tuple[Child, ...], post: Post
    ) -> None:
        self._supervisor = supervisor
        self._host = host
        self._post = post
        self._children = children

    @property
    def gateway(self) -> Gateway | None:
        """The gateway, where it lives in this loop."""
        actor = self._host.actors.get("gateway")
        if actor is None:
            return None
        from optimist.actors.gateway.actor import Gateway

        assert isinstance(actor, Gateway)
        return actor

    @property
    def broken(self) -> EngineBroken | None:
        """Why nobody is restarted any more; None while all is well."""
        return self._supervisor.broken

    @property
    def restarts(self) -> int:
        """Lives beyond the first of each child."""
        return self._supervisor.restarts

    @property
    def pids(self) -> dict[str, int]:
        """Process id of every child process that is there now, by the name of its cell."""
        found = ((c.name, c.pid) for c in self._children if isinstance(c, ProcessChild))
        return {name: pid for name, pid in found if pid is not None}

    @property
    def details(self) -> dict[str, str]:
        """What each actor had to tell when it was ready, by its name."""
        told = {name: actor.detail for name, actor in self._host.actors.items()}
        for child in self._children:
            if isinstance(child, ProcessChild):
                told |= child.details
        return told

    async def wait_ended(self) -> None:
        """Wait until the troupe is closed. Raises EngineBroken when it gave up."""
        await self._supervisor.ended.wait()
        if self.broken is not None:
            raise EngineBroken(self.broken.problem.message)

    def drain(self) -> None:
        """Let the gateway refuse new requests and finish those that run."""
        self._post.tell_gateway(Drain(incarnation=0))

    def check_syncs(self, mode: SyncMode) -> None:
        """Let the worker, and every later life of it, check its steps so from now on."""
        self._post.check_syncs(SyncCheck(incarnation=0, mode=mode))

    async def wait_drained(self) -> None:
        """Wait until a gateway that was told to drain has finished what it had."""
        for child in self._children:
            if isinstance(child, ProcessChild) and "gateway" in child.actors:
                await child.drained.wait()
        while self.gateway is not None and not self.gateway.drained:
            await anyio.sleep(_DRAIN_LOOK_SECONDS)


@asynccontextmanager
async def bring_up(
    config: EngineConfig,
    tokenizer: Tokenizer | None = None,
    *,
    gateway_here: bool = True,
    report: Report = ignore,
    module: str = CELLS,
) -> AsyncIterator[Troupe]:
    """Start every actor; on leaving, stop them in reverse order and remove what they left.

    tokenizer: for a gateway in this loop; None loads its model's. gateway_here: as in `layout`.
    report: told the progress of a start. module: what child processes run.
    Raises ConfigError or ModelError for a wrong option, variable or model, EngineBroken when an actor does not
    start in time. An exception of the body comes out as it is. Leaving is not interrupted by
    cancellation: the limits of the actors bound it.
    """
    _check_limits(config)
    check_values(os.environ)
    check_contract(config)
    places = layout(config, gateway_here=gateway_here)
    with ExitStack() as stack:
        orders, outside = _outside(stack, places, config, report, module)
        host = Host(places.local, Cells(config, report, tokenizer).build, outside)
        children = _children(places, host, orders)
        post = Post(host, children)
        for child in children:
            if isinstance(child, ProcessChild):
                child.on_news = post.tell_gateway
        tree = _tree(config, children)
        _check_values(config)
        failure: BaseException | None = None
        try:
            async with anyio.create_task_group() as group:
                supervisor = Supervisor(
                    tree,
                    children,
                    group,
                    post.tell,
                    start_timeout=config.start_timeout,
                )
                try:
                    await supervisor.start()
                    await anyio.to_thread.run_sync(give_back)
                    _fix_doors(config, children)
                    yield Troupe(supervisor, host, children, post)
                except BaseException as error:
                    failure = error
                    raise
                finally:
                    with anyio.CancelScope(shield=True):
                        await supervisor.stop()
                        await anyio.to_thread.run_sync(give_back)
        except BaseExceptionGroup:
            if failure is None:
                raise
        if failure is not None:
            raise failure


def _check_limits(config: EngineConfig) -> None:
    if config.start_timeout <= 0:
        raise ConfigError(f"start_timeout: expected > 0 seconds, got {config.start_timeout:g}")
    given = config.hang_timeout
    if given is not None and given <= BEAT_SECONDS:
        raise ConfigError(
            f"hang_timeout: expected more than the {BEAT_SECONDS:g} s between two beats, got {given:g}"
        )
    if given is not None and config.placement == "inline":
        raise ConfigError(
            f"hang_timeout: {given:g} s and placement 'inline' contradict each other: no actor has a "
            f"process of its own to be watched"
        )


def hang_seconds(config: EngineConfig) -> float:
    """Of silence, or of one step, after which a process counts as dead."""
    if config.hang_timeout is not None:
        return config.hang_timeout
    worker = config.worker
    interpreted = worker.executor == "triton" and gpus.on_cpu(worker.device)
    return INTERPRETED_SECONDS if interpreted else HANG_SECONDS


def _check_values(config: EngineConfig) -> None:
    """A Struct made in Python is not held against its types until it is decoded: here, not in a child."""
    try:
        msgspec.json.decode(msgspec.json.encode(config), type=EngineConfig)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$.")
        raise ConfigError(f"{where.rstrip('`')}: {plain_words(reason)}") from None


def _outside(
    stack: ExitStack, places: Layout, config: EngineConfig, report: Report, module: str
) -> tuple[Orders | None, Outside | None]:
    """What child processes need: a directory to meet in, sockets, and what they are told."""
    if not places.remote:
        return None, None
    directory = stack.enter_context(run_directory())
    links = stack.enter_context(Links())
    orders = Orders(directory, msgspec.json.encode(config), hang_seconds(config), report, module)
    return orders, Outside(links, directory)


def _children(places: Layout, host: Host, orders: Orders | None) -> tuple[Child, ...]:
    """Every child, in starting order of its first actor."""
    children: list[Child] = []
    children += [LocalChild(host, actor) for actor in places.local]
    if orders is not None:
        children += [ProcessChild(cell, orders) for cell in places.remote]
    return tuple(sorted(children, key=lambda child: STARTING_ORDER.index(child.actors[0])))


def _tree(config: EngineConfig, children: tuple[Child, ...]) -> Tree:
    """The tree as written: one for one, since Resync lets each come back alone.

    A gateway in this loop holds the caller's streams: there is no other life of it.
    """
    return Tree(
        tuple(
            Branch(
                child.name,
                config.stop_timeout,
                restarts=not (isinstance(child, LocalChild) and child.name == "gateway"),
                dispensable=set(child.actors) <= set(DISPENSABLE),
            )
            for child in children
        ),
        Budget(config.restarts, config.restart_window),
    )


def _fix_doors(config: EngineConfig, children: tuple[Child, ...]) -> None:
    """A restarted gateway must be found where the first one was, on the ports that were free then."""
    for child in children:
        if isinstance(child, ProcessChild) and (detail := child.details.get("gateway")):
            doors = detail.split(" and ")
            ports = [urlsplit(door).port for door in doors if door.startswith("http://")]
            sockets = [door for door in doors if not door.startswith("http://")]
            gateway = msgspec.structs.replace(
                config.gateway,
                port=ports[0] if ports else config.gateway.port,
                zmq=sockets[0] if sockets else config.gateway.zmq,
            )
            fixed = msgspec.structs.replace(config, gateway=gateway)
            child.tell_next(msgspec.json.encode(fixed))
