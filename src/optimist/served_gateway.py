"""A gateway with doors to the outside: HTTP and the ZeroMQ client protocol, in its own loop."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from optimist.actors.config import GatewayConfig
from optimist.actors.gateway.actor import Gateway, GatewayInbox
from optimist.messages.errors import ConfigError, EngineEnded
from optimist.transport.base import Inbox

if TYPE_CHECKING:
    from optimist.transport.endpoints import CurveKeys


class ServedGateway(Gateway):
    """Takes its addresses when it is made, so that one that is taken or unsafe ends the start.

    detail: where clients reach it. Raises ConfigError as `listen` and `Router` do.
    """

    def __init__(self, config: GatewayConfig, incarnation: int, **rest: Any) -> None:
        super().__init__(config, incarnation, **rest)
        with ExitStack() as stack:
            self._doors = _Doors(self, config, stack)
            self._close = stack.pop_all()
        self.detail = " and ".join(self._doors.addresses)

    @property
    def drained(self) -> bool:
        """Whether it was told to drain, and every client has its answer."""
        return super().drained and not self._doors.busy

    async def run(self, inbox: Inbox[GatewayInbox]) -> None:
        """Serve clients as long as the actor lives; then end their requests by name."""
        with self._close:
            async with anyio.create_task_group() as group:
                group.start_soon(self._doors.serve)
                await super().run(inbox)
                self._doors.farewell(EngineEnded("the server is stopping"))
                group.cancel_scope.cancel()


def curve_keys(path: str) -> CurveKeys:
    """The keys in a JSON file. Raises ConfigError when it is not one, or others may read it."""
    from optimist.transport.endpoints import CurveKeys

    try:
        if Path(path).stat().st_mode & 0o077:
            raise ConfigError(f"zmq_keys: expected {path} to be its owner's alone: chmod 600")
        return msgspec.json.decode(Path(path).read_bytes(), type=CurveKeys)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"zmq_keys: cannot read {path}: {error}") from None


class _Doors:
    """The sockets of a served gateway, and what answers on them."""

    def __init__(self, gateway: Gateway, config: GatewayConfig, stack: ExitStack) -> None:
        self.addresses: list[str] = []
        self._gateway = gateway
        self._listener = None
        self._front = None
        if config.port is not None:
            from optimist.http.server import listen, url

            self._listener = stack.enter_context(listen(config.host, config.port))
            self.addresses.append(url(self._listener))
        if config.zmq:
            from optimist.transport.links import Links
            from optimist.transport.router import Router
            from optimist.zmq_front import ZmqFront

            keys = curve_keys(config.zmq_keys) if config.zmq_keys else None
            router = Router(stack.enter_context(Links()), config.zmq, curve=keys)
            self._front = ZmqFront(gateway, router)
            self.addresses.append(router.endpoint)

    async def serve(self) -> None:
        """Answer clients until cancelled."""
        async with anyio.create_task_group() as group:
            if self._front is not None:
                group.start_soon(self._front.run)
            if self._listener is not None:
                from optimist.http.app import create_app
                from optimist.http.gateway_service import GatewayService
                from optimist.http.server import serve_http

                app = create_app(GatewayService(lambda: self._gateway))
                group.start_soon(serve_http, app, self._listener)

    @property
    def busy(self) -> bool:
        """Whether an answer waits to be sent. HTTP has a grace of its own for that, see `serve_http`."""
        return self._front is not None and self._front.live > 0

    def farewell(self, error: EngineEnded) -> None:
        """End every open request, and tell its client."""
        if self._front is not None:
            self._front.farewell(error.problem)
        self._gateway.end(error)
