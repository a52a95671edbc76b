"""`optimist serve`: the engine behind HTTP and ZeroMQ, until it is told to stop."""

from __future__ import annotations

import ipaddress
import logging
import signal
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import anyio

from optimist.cli.progress import show
from optimist.cli.settings import command_value, engine_config
from optimist.messages.errors import ConfigError, EngineBroken

if TYPE_CHECKING:
    from optimist.actors.config import EngineConfig
    from optimist.cli.parser import Parsed
    from optimist.troupe import Troupe


def run(parsed: Parsed) -> int:
    """Serve; print one line when ready. SIGTERM and SIGINT let requests finish, then stop it in good
    order; a second one does not let them finish, and a third one waits for nothing.

    Raises EngineBroken when an actor dies beyond its restart budget.
    """
    config = engine_config(parsed)
    grace = command_value(parsed, "drain_timeout")
    if not grace >= 0:
        raise ConfigError(f"--drain-timeout: expected seconds >= 0, got {grace:g}")
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    if not is_loopback(config.gateway.host):
        print(
            f"optimist: warning: {config.gateway.host} is not a loopback address and there is no"
            " authentication: whoever reaches it can use the model",
            file=sys.stderr,
        )
    anyio.run(
        _serve, config, grace, backend_options={"use_uvloop": find_spec("uvloop") is not None}
    )
    return 0


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _serve(config: EngineConfig, grace: float) -> None:
    stopping = _Stopping()
    failure: Exception | None = None
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with anyio.create_task_group() as group:
            group.start_soon(stopping.listen, signals)
            try:
                with stopping.scope:
                    await _run(config, stopping, grace)
            except Exception as error:  # noqa: BLE001 - comes out bare, not in a group
                failure = error
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _run(config: EngineConfig, stopping: _Stopping, grace: float) -> None:
    """Be ready, and stay so until told to stop. Raises EngineBroken when it ends by itself."""
    from optimist.engine_options import model_name
    from optimist.troupe import bring_up, ignore

    ends: list[EngineBroken] = []
    async with bring_up(config, gateway_here=False, report=show() or ignore) as troupe:

        async def watch() -> None:
            try:
                await troupe.wait_ended()
            except EngineBroken as error:
                ends.append(error)
            stopping.told.set()

        where = troupe.details.get("gateway", "")
        print(f"optimist: {model_name(config.gateway)} is ready at {where}", flush=True)
        stopping.ready = True
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await stopping.told.wait()
            if not ends:
                await _drain(troupe, stopping, grace)
            group.cancel_scope.cancel()
    if ends:
        raise ends[0]


async def _drain(troupe: Troupe, stopping: _Stopping, grace: float) -> None:
    """Take no more requests, and give those that run so many seconds, or until the next signal."""
    troupe.drain()
    with anyio.move_on_after(grace):
        async with anyio.create_task_group() as group:

            async def hurry() -> None:
                await stopping.hurried.wait()
                group.cancel_scope.cancel()

            group.start_soon(hurry)
            await troupe.wait_drained()
            group.cancel_scope.cancel()


class _Stopping:
    """What signals do. The first lets a ready engine finish, the second ends it, anything else at once."""

    def __init__(self) -> None:
        self.told = anyio.Event()
        self.hurried = anyio.Event()
        self.scope = anyio.CancelScope()
        self.ready = False

    async def listen(self, signals: AsyncIterator[signal.Signals]) -> None:
        async for _ in signals:
            if self.hurried.is_set() or not self.ready:
                self.scope.cancel()
            if self.told.is_set():
                self.hurried.set()
            self.told.set()
