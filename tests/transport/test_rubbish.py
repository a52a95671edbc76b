"""Rubbish on the port: whatever connects and whatever it says, the others go on unharmed."""

from __future__ import annotations

import os
import pickle
import random
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest
import zmq
from sockets import LIMIT, beat, client_endpoint, greet, take

from optimist.messages.control import Beat
from optimist.messages.errors import MessageError
from optimist.transport.channel import PullInbox, PushRef
from optimist.transport.dealer import Dealer
from optimist.transport.endpoints import ipc
from optimist.transport.links import Links
from optimist.transport.router import Router
from optimist.transport.wire import Wire

pytestmark = pytest.mark.anyio

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)


def ready(kind: bytes) -> bytes:
    """The READY command of ZMTP 3 for a socket of this kind."""
    body = b"\x05READY\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
    return bytes([4, len(body)]) + body


def rubbish() -> list[bytes]:
    """What strangers say."""
    noise = random.Random(1)
    hello = GREETING + ready(b"DEALER") + ready(b"PUSH")
    return [
        b"",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        GREETING[:11],
        GREETING,
        GREETING + b"\x04\xff",
        hello + b"\x02" + (2**63).to_bytes(8, "big") + b"x",
        GREETING + ready(b"DEALER") + b"\x02" + (2**63 - 1).to_bytes(8, "big"),
        GREETING + ready(b"PUSH") + b"\x02" + (2**40).to_bytes(8, "big") + b"y" * 1000,
        GREETING + ready(b"DEALER") + b"\x01\x00" * 5000 + b"\x00\x00",
        GREETING + ready(b"x" * 200),
        *(noise.randbytes(noise.randrange(1, 400)) for _ in range(40)),
    ]


def strangers(endpoint: str, words: list[bytes]) -> Iterator[socket.socket]:
    """One connection for each."""
    for said in words:
        if endpoint.startswith("ipc://"):
            stranger = socket.socket(socket.AF_UNIX)
            stranger.connect(endpoint.removeprefix("ipc://"))
        else:
            host, port = endpoint.removeprefix("tcp://").rsplit(":", 1)
            stranger = socket.create_connection((host, int(port)))
        try:
            stranger.sendall(said)
        except OSError:
            assert said, "cut off before it said anything"
        yield stranger


def peak_memory() -> int:
    """The most this process ever held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
async def test_a_client_is_served_among_strangers(
    links: Links, sockets: Path, transport: str
) -> None:
    endpoint = client_endpoint(sockets) if transport == "ipc" else "tcp://127.0.0.1:*"
    router = Router(links, endpoint)
    dealer = Dealer(links, router.endpoint)
    identity = await greet(router, dealer)
    before = peak_memory()
    with ExitStack() as stack:
        for stranger in strangers(router.endpoint, rubbish() + [b""] * 200):
            stack.enter_context(stranger)
        late = Dealer(links, router.endpoint)
        known = {identity, await greet(router, late)}
        assert len(known) == 2
        dealer.send(b"still here")
        with anyio.fail_after(LIMIT):
            while (incoming := await router.receive()).frame != b"still here":
                assert incoming.identity not in known
            router.send(identity, b"yes")
            assert await dealer.receive() == b"yes"
    assert peak_memory() - before < 64 * 2**20


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
async def test_an_actor_goes_on_among_strangers(
    links: Links, sockets: Path, transport: str
) -> None:
    endpoint = ipc(sockets, "a") if transport == "ipc" else "tcp://127.0.0.1:*"
    inbox = PullInbox(links, endpoint, (Beat,))
    before = peak_memory()
    with ExitStack() as stack:
        for stranger in strangers(inbox.endpoint, rubbish() + [b""] * 100):
            stack.enter_context(stranger)
        ref = PushRef(links, inbox.endpoint, (Beat,))
        ref.send(beat(1))
        assert await take(inbox) == beat(1)
    ref.send(beat(2))
    assert await take(inbox) == beat(2)
    assert peak_memory() - before < 64 * 2**20


class Marker:
    """Unpickling it makes a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def pickles(tmp_path: Path) -> Iterator[list[bytes]]:
    """One for each protocol, and a check afterwards that none was loaded."""
    marker = tmp_path / "executed"
    yield [pickle.dumps(Marker(marker), protocol) for protocol in range(6)]
    assert not marker.exists()


def test_the_marker_is_made_by_whoever_loads_the_pickle(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    pickle.loads(pickle.dumps(Marker(marker)))
    assert marker.exists()


async def test_a_pickle_in_any_frame_of_an_actor_is_dropped(
    links: Links, sockets: Path, pickles: list[bytes]
) -> None:
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,))
    raw = links.socket(zmq.PUSH)
    raw.connect(inbox.endpoint)
    for each in pickles:
        raw.send(each)
        raw.send_multipart([each, each])
    PushRef(links, inbox.endpoint, (Beat,)).send(beat(1))
    assert await take(inbox) == beat(1)
    while inbox.dropped < 2 * len(pickles):
        with anyio.fail_after(LIMIT):
            await inbox.wait()
        assert inbox.receive_nowait() is None


async def test_a_pickle_in_any_frame_between_client_and_router_stays_bytes(
    links: Links, sockets: Path, pickles: list[bytes]
) -> None:
    router = Router(links, client_endpoint(sockets))
    raw = links.socket(zmq.DEALER)
    raw.routing_id = pickles[0]
    raw.connect(router.endpoint)
    dealer = Dealer(links, router.endpoint)
    identity = await greet(router, dealer)
    for each in pickles:
        raw.send(each)
        raw.send_multipart([each, each])
        router.send(identity, each)
    with anyio.fail_after(LIMIT):
        got = [await router.receive() for _ in pickles]
        assert [incoming.frame for incoming in got] == pickles
        assert {incoming.identity for incoming in got} == {pickles[0]}
        assert [await dealer.receive() for _ in pickles] == pickles


async def test_a_pickle_on_the_wire_is_refused(pickles: list[bytes]) -> None:
    raw, end = socket.socketpair()
    wire = Wire(end, (Beat,))
    with raw:
        for each in pickles:
            raw.send(len(each).to_bytes(4, "big") + each)
            with pytest.raises(MessageError):
                await wire.receive()
    wire.close()
