"""The client edge: ROUTER and DEALER under cancelling, backpressure, loss and misuse."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
import zmq
from sockets import client_endpoint, greet, meet

from optimist.messages.errors import PeerGone
from optimist.transport.base import EndOfInbox
from optimist.transport.dealer import Dealer
from optimist.transport.links import Links
from optimist.transport.router import Router

pytestmark = pytest.mark.anyio


async def until_refused(send: Callable[[], bool]) -> int:
    """How many sends were taken before one was not."""
    taken = 0
    while send():
        taken += 1
    return taken


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
async def test_frames_go_both_ways_in_order(links: Links, sockets: Path, transport: str) -> None:
    endpoint = client_endpoint(sockets) if transport == "ipc" else "tcp://127.0.0.1:*"
    router, dealer, identity = await meet(links, endpoint)
    for number in range(200):
        assert dealer.send(b"%d" % number)
        assert router.send(identity, b"%d" % -number)
    with anyio.fail_after(60):
        assert [int((await router.receive()).frame) for _ in range(200)] == list(range(200))
        assert [int(await dealer.receive()) for _ in range(200)] == [-n for n in range(200)]


async def test_a_reply_that_came_before_a_send_still_wakes_the_client(
    links: Links, sockets: Path
) -> None:
    router, dealer, identity = await meet(links, client_endpoint(sockets))
    got: list[bytes] = []

    async def receive() -> None:
        got.append(await dealer.receive())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            router.send(identity, b"reply")
            arrived(dealer)
            dealer.send(b"takes the readiness")
    assert got == [b"reply"]


async def test_a_request_that_came_before_a_send_still_wakes_the_router(
    links: Links, sockets: Path
) -> None:
    router, dealer, identity = await meet(links, client_endpoint(sockets))
    got: list[bytes] = []

    async def receive() -> None:
        got.append((await router.receive()).frame)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            dealer.send(b"request")
            arrived(router)
            router.send(identity, b"takes the readiness")
    assert got == [b"request"]


def arrived(socket: Router | Dealer) -> None:
    """Block, without taking the readiness, until a command has reached the socket.

    A send looks at commands only when the last look is about a millisecond old.
    """
    assert select.select([socket], [], [], 20)[0]
    time.sleep(0.005)


async def test_receives_cancelled_at_arrival_lose_nothing_on_either_side(
    links: Links, sockets: Path
) -> None:
    router, dealer, identity = await meet(links, client_endpoint(sockets))
    total, cancelled = 3000, 0
    up: list[int] = []
    down: list[int] = []
    scopes: dict[str, anyio.CancelScope] = {}

    async def send() -> None:
        for number in range(total):
            while number - min(len(up), len(down)) > 300:
                await anyio.sleep(0.0005)
            assert dealer.send(b"%d" % number)
            assert router.send(identity, b"%d" % number)
            if number % 3 == 0:
                for scope in scopes.values():
                    scope.cancel()
            await anyio.lowlevel.checkpoint()

    async def receive(name: str, got: list[int], take: Callable[[], object]) -> None:
        nonlocal cancelled
        wait = router.wait if name == "up" else dealer.wait
        while len(got) < total:
            with anyio.CancelScope() as scopes[name]:
                await wait()
            cancelled += scopes[name].cancelled_caught
            if (frame := take()) is not None:
                got.append(int(frame))  # type: ignore[call-overload]

    def from_router() -> object:
        incoming = router.receive_nowait()
        return None if incoming is None else incoming.frame

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(send)
            group.start_soon(receive, "up", up, from_router)
            group.start_soon(receive, "down", down, dealer.receive_nowait)
    assert up == down == list(range(total))
    assert cancelled > 0


async def test_a_client_that_does_not_read_is_reported_and_nothing_taken_is_lost(
    links: Links, sockets: Path
) -> None:
    router, dealer, identity = await meet(links, client_endpoint(sockets), capacity=50)
    frame = bytes(20_000)
    taken = await until_refused(lambda: router.send(identity, frame))
    assert 0 < taken < 5000
    other = Dealer(links, router.endpoint)
    with anyio.fail_after(60):
        await other.connected()
        other.send(b"hello")
        assert router.send((await router.receive()).identity, b"others go on")
        assert await other.receive() == b"others go on"
        for _ in range(taken):
            assert await dealer.receive() == frame
        while not router.send(identity, b"room again"):
            await anyio.sleep(0.001)
        assert await dealer.receive() == b"room again"


async def test_a_client_that_nobody_knows_is_gone(links: Links, sockets: Path) -> None:
    router, dealer, identity = await meet(links, client_endpoint(sockets))
    with pytest.raises(PeerGone, match="client 6e6f626f6479: not connected"):
        router.send(b"nobody", b"frame")
    dealer.close()
    with anyio.fail_after(60), pytest.raises(PeerGone):
        while router.send(identity, b"frame"):
            await anyio.sleep(0.001)


async def test_messages_of_several_frames_are_dropped_counted_and_reported(
    links: Links, sockets: Path
) -> None:
    reports: list[str] = []
    router = Router(
        links, client_endpoint(sockets), report=lambda error: reports.append(str(error))
    )
    raw = links.socket(zmq.DEALER)
    raw.connect(router.endpoint)
    raw.send_multipart([b"", b"as a REQ socket would"])
    raw.send_multipart([b"a"] * 1000)
    raw.send(b"one")
    with anyio.fail_after(60):
        assert (await router.receive()).frame == b"one"
    assert router.dropped == 2
    assert reports == [f"message: expected one frame, got {n}" for n in (2, 1000)]


async def test_a_client_drops_messages_of_several_frames(links: Links, sockets: Path) -> None:
    raw = links.socket(zmq.ROUTER)
    raw.bind(client_endpoint(sockets))
    dealer = Dealer(links, client_endpoint(sockets))
    with anyio.fail_after(60):
        await dealer.connected()
        dealer.send(b"hello")
        identity, _ = raw.recv_multipart()
        raw.send_multipart([identity, b"two", b"frames"])
        raw.send_multipart([identity, b"one"])
        assert await dealer.receive() == b"one"
    assert dealer.dropped == 1


async def test_an_oversize_frame_ends_its_connection_and_no_other(
    links: Links, sockets: Path
) -> None:
    router, dealer, _ = await meet(links, client_endpoint(sockets))
    big = Dealer(links, router.endpoint)
    with anyio.fail_after(60):
        await big.connected()
        big.send(bytes(200_000))
        with pytest.raises(PeerGone, match="the connection was lost"):
            await big.receive()
        dealer.send(b"still here")
        assert (await router.receive()).frame == b"still here"


async def test_a_lost_connection_is_said_once_after_what_it_brought(sockets: Path) -> None:
    with Links() as ours:
        with Links() as theirs:
            router = Router(theirs, client_endpoint(sockets))
            dealer = Dealer(ours, router.endpoint)
            identity = await greet(router, dealer)
            for number in range(10):
                router.send(identity, b"%d" % number)
        with anyio.fail_after(60):
            assert [int(await dealer.receive()) for _ in range(10)] == list(range(10))
            with pytest.raises(PeerGone, match="the connection was lost"):
                await dealer.receive()
        assert not dealer.send(b"to nobody")
        with Links() as theirs, anyio.fail_after(60):
            router = Router(theirs, client_endpoint(sockets))
            await dealer.connected()
            assert dealer.send(b"hello again")
            assert (await router.receive()).frame == b"hello again"


async def test_closing_ends_parked_receivers(links: Links, sockets: Path) -> None:
    router, dealer, identity = await meet(links, client_endpoint(sockets))
    ended: list[str] = []

    async def end(name: str, wait: Callable[[], object]) -> None:
        with pytest.raises(EndOfInbox):
            await wait()  # type: ignore[misc]
        ended.append(name)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(end, "router", router.wait)
            group.start_soon(end, "dealer", dealer.wait)
            await anyio.wait_all_tasks_blocked()
            router.close()
            dealer.close()
    assert sorted(ended) == ["dealer", "router"]
    assert not dealer.send(b"late")
    with pytest.raises(PeerGone):
        router.send(identity, b"late")
    with pytest.raises(EndOfInbox):
        await dealer.connected()
    assert not (sockets / "client.sock").exists()
