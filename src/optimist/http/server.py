"""uvicorn around the app, without its signal handlers, in the caller's own asyncio loop."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import anyio
import sniffio
import uvicorn
from starlette.types import ASGIApp

from optimist.http.protocol import BoundedProtocol
from optimist.messages.errors import ConfigError

BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises ConfigError when it cannot be had."""
    if not 0 <= port < 2**16:
        raise ConfigError(f"--port {port}: expected a port, 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise ConfigError(f"--host {host} --port {port}: {error}") from None
    return listener


def url(listener: socket.socket) -> str:
    """Where the socket listens."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve_http(
    app: ASGIApp,
    listener: socket.socket,
    *,
    started: Callable[[], None] = lambda: None,
    grace: float = 5.0,
) -> None:
    """Serve until cancelled; then refuse connections, and give open answers `grace` seconds.

    Raises ConfigError on trio: uvicorn serves on asyncio only.
    """
    if sniffio.current_async_library() != "asyncio":
        listener.close()
        raise ConfigError("serve(http=...): expected an asyncio loop, got trio; use zmq=... there")
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=max(1, round(grace)),
    )
    server = _Server(config, started)
    try:
        await _serve(server, listener)
    finally:
        listener.close()


async def _serve(server: _Server, listener: socket.socket) -> None:
    """Run the server in a shielded task, so that cancelling begins a graceful end instead."""
    done = anyio.Event()

    async def run() -> None:
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[listener])
        done.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        try:
            await done.wait()
        finally:
            server.should_exit = True


class _Server(uvicorn.Server):
    """Leaves signals to the program that it is part of."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()
