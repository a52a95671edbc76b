"""Where sockets may listen, and who may connect."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
import zmq
from sockets import client_endpoint

from optimist.messages.control import Beat
from optimist.messages.errors import ConfigError
from optimist.transport.channel import PullInbox
from optimist.transport.dealer import Dealer
from optimist.transport.endpoints import CurveKeys, ipc
from optimist.transport.links import Links
from optimist.transport.router import Router

pytestmark = pytest.mark.anyio


def test_unsafe_and_taken_endpoints_are_refused_by_name(links: Links, sockets: Path) -> None:
    os.chmod(sockets, 0o755)
    with pytest.raises(ConfigError, match=r"mode 0700, got .* with mode 0755"):
        PullInbox(links, ipc(sockets, "a"), (Beat,))
    os.chmod(sockets, 0o700)
    PullInbox(links, ipc(sockets, "a"), (Beat,))
    with pytest.raises(ConfigError, match="another process listens there"):
        PullInbox(links, ipc(sockets, "a"), (Beat,))
    with pytest.raises(ConfigError, match="loopback"):
        PullInbox(links, "tcp://0.0.0.0:0", (Beat,))
    with pytest.raises(ConfigError, match="at most 107 bytes"):
        ipc(sockets, "a" * 120)


def test_addresses_that_others_can_reach_need_curve_keys(links: Links, sockets: Path) -> None:
    for endpoint in ("tcp://0.0.0.0:*", "tcp://*:*", "tcp://192.0.2.1:5555"):
        with pytest.raises(ConfigError, match=r"loopback address such as 127.0.0.1, or CURVE keys"):
            Router(links, endpoint)
    for endpoint in ("inproc://x", "tcp://127.0.0.1", "udp://127.0.0.1:1", "ipc://relative"):
        with pytest.raises(ConfigError, match="expected"):
            Router(links, endpoint)
    Router(links, client_endpoint(sockets))
    with pytest.raises(ConfigError, match="another process listens there"):
        Router(links, client_endpoint(sockets))
    first = Router(links, "tcp://127.0.0.1:*")
    with pytest.raises(ConfigError, match="cannot listen: Address already in use"):
        Router(links, first.endpoint)


@pytest.mark.parametrize("endpoint", ["tcp://192.0.2.1:5555", "tcp://models.example:5555"])
def test_nothing_is_sent_in_clear_to_another_machine(links: Links, endpoint: str) -> None:
    with pytest.raises(ConfigError, match="expected CURVE keys, or a loopback address"):
        Dealer(links, endpoint)


async def test_curve_lets_its_clients_in_and_others_not(links: Links) -> None:
    server, client = (
        CurveKeys(public=public.decode(), secret=secret.decode())
        for public, secret in (zmq.curve_keypair(), zmq.curve_keypair())
    )
    router = Router(links, "tcp://0.0.0.0:*", curve=server)
    endpoint = router.endpoint.replace("0.0.0.0", "127.0.0.1")
    plain = Dealer(links, endpoint)
    keys = CurveKeys(public=client.public, secret=client.secret, server=server.public)
    dealer = Dealer(links, endpoint, curve=keys)
    with anyio.fail_after(20):
        await dealer.connected()
        assert dealer.send(b"secret")
        incoming = await router.receive()
        assert incoming.frame == b"secret"
        router.send(incoming.identity, b"reply")
        assert await dealer.receive() == b"reply"
    assert not plain.send(b"plain")
    with pytest.raises(ConfigError, match="the server's public key, got none"):
        Dealer(links, endpoint, curve=client)
    with pytest.raises(ConfigError, match="curve public key: expected 40 characters"):
        CurveKeys(public="short", secret=client.secret)
