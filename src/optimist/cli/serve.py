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
from optimist.cli.settings import engine_config
from optimist.messages.errors import EngineBroken

if TYPE_CHECKING:
    from optimist.actors.config import EngineConfig
    from optimist.cli.parser import Parsed


def run(parsed: Parsed) -> int:
    """Serve; print one line when ready. SIGTERM and SIGINT stop it in good order.

    Raises EngineBroken when an actor dies beyond its restart budget.
    """
    config = engine_config(parsed)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    if not is_loopback(config.gateway.host):
        print(
            f"optimist: warning: {config.gateway.host} is not a loopback address and there is no"
            " authentication: whoever reaches it can use the model",
            file=sys.stderr,
        )
    anyio.run(_serve, config, backend_options={"use_uvloop": find_spec("uvloop") is not None})
    return 0


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _serve(config: EngineConfig) -> None:
    stopping = _Stopping()
    failure: Exception | None = None
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with anyio.create_task_group() as group:
            group.start_soon(stopping.listen, signals)
            try:
                with stopping.scope:
                    await _run(config, stopping)
            except Exception as error:  # noqa: BLE001 - comes out bare, not in a group
                failure = error
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _run(config: EngineConfig, stopping: _Stopping) -> None:
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
            group.cancel_scope.cancel()
    if ends:
        raise ends[0]


class _Stopping:
    """What signals do. The first one ends a ready engine in good order, anything else ends at once."""

    def __init__(self) -> None:
        self.told = anyio.Event()
        self.scope = anyio.CancelScope()
        self.ready = False

    async def listen(self, signals: AsyncIterator[signal.Signals]) -> None:
        async for _ in signals:
            if self.told.is_set() or not self.ready:
                self.scope.cancel()
            self.told.set()
