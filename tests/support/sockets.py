"""What the transport tests share: a small message, receiving with a time limit, a connected pair."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import anyio

from optimist.messages.base import ActorMessage
from optimist.messages.control import Beat
from optimist.transport.base import Inbox
from optimist.transport.dealer import Dealer
from optimist.transport.links import Links
from optimist.transport.router import Router

M = TypeVar("M", bound=ActorMessage)
LIMIT = 60


def beat(number: int, cell: str = "a") -> Beat:
    """A message with a number on it."""
    return Beat(incarnation=number, cell=cell)


async def take(inbox: Inbox[M]) -> M:
    """The next message. Raises TimeoutError when none comes."""
    with anyio.fail_after(LIMIT):
        while (message := inbox.receive_nowait()) is None:
            await inbox.wait()
    return message


def client_endpoint(directory: Path) -> str:
    """Where the tests' routers listen."""
    return f"ipc://{directory}/client.sock"


async def meet(links: Links, endpoint: str, capacity: int = 1000) -> tuple[Router, Dealer, bytes]:
    """A router, a client of it, and the client's identity."""
    router = Router(links, endpoint, capacity=capacity, max_bytes=100_000)
    dealer = Dealer(links, router.endpoint)
    return router, dealer, await greet(router, dealer)


async def greet(router: Router, dealer: Dealer) -> bytes:
    """The identity under which the router knows the client."""
    with anyio.fail_after(LIMIT):
        await dealer.connected()
        assert dealer.send(b"hello")
        return (await router.receive()).identity
