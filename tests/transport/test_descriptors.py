"""More connections than a process has file descriptors for."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import anyio
import pytest

from optimist.transport.dealer import Dealer
from optimist.transport.descriptors import allow_open_files
from optimist.transport.links import Links

pytestmark = pytest.mark.anyio

ECHO = """
import resource, anyio
from optimist.transport.links import Links
from optimist.transport.router import Router

async def main():
    with Links() as links:
        router = Router(links, "tcp://127.0.0.1:*")
        print(router.endpoint, flush=True)
        resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
        while True:
            incoming = await router.receive()
            router.send(incoming.identity, incoming.frame)

anyio.run(main)
"""


@pytest.fixture
def anyio_backend() -> str:
    """One loop is enough: it is the other process that runs out."""
    return "asyncio"


@pytest.fixture
def gateway() -> Iterator[str]:
    """The endpoint of a process that answers with what it is told, and has few descriptors."""
    with subprocess.Popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield child.stdout.readline().strip()
        assert child.poll() is None
        child.kill()


async def test_a_gateway_without_descriptors_serves_the_clients_it_has(
    links: Links, gateway: str
) -> None:
    host, port = gateway.removeprefix("tcp://").split(":")
    dealer = Dealer(links, gateway)
    with ExitStack() as idle, anyio.fail_after(60):
        await dealer.connected()
        for _ in range(200):
            with suppress(OSError):
                stranger = socket.create_connection((host, int(port)), timeout=0.05)
                idle.enter_context(stranger)
        dealer.send(b"still here")
        assert await dealer.receive() == b"still here"
    with anyio.fail_after(60):
        late = Dealer(links, gateway)
        await late.connected()
        late.send(b"me too")
        assert await late.receive() == b"me too"


@pytest.mark.parametrize(("soft", "hard", "now"), [(64, 128, 100), (64, 80, 80), (110, 128, 110)])
def test_the_soft_limit_is_raised_as_far_as_the_hard_one_allows(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, now: int
) -> None:
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, new: limits.append(new))
    assert allow_open_files(100) == now
    assert limits[-1] == (now, hard)


def test_without_a_limit_nothing_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: infinite)
    assert allow_open_files(100) == resource.RLIM_INFINITY
