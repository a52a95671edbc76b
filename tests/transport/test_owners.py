"""Who may use a socket: one process, one thread, one event loop, one receiver."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
import zmq
from sockets import LIMIT, beat, client_endpoint, meet, take

from optimist.messages.control import Beat
from optimist.messages.errors import WrongOwner
from optimist.transport.channel import PullInbox, PushRef
from optimist.transport.dealer import Dealer
from optimist.transport.endpoints import ipc
from optimist.transport.links import Links
from optimist.transport.router import Router

pytestmark = pytest.mark.anyio


async def test_a_second_receiver_is_refused(links: Links, sockets: Path) -> None:
    router, dealer, _ = await meet(links, client_endpoint(sockets))
    for wait in (router.wait, dealer.wait):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(WrongOwner, match="second task"):
                await wait()
            group.cancel_scope.cancel()


async def test_eight_threads_with_loops_of_their_own_are_refused(
    links: Links, sockets: Path
) -> None:
    router, dealer, _ = await meet(links, client_endpoint(sockets))
    refused: list[str] = []

    def misuse(backend: str) -> None:
        for call in (dealer.receive, dealer.connected, router.receive):
            with pytest.raises(WrongOwner) as error:
                anyio.run(call, backend=backend)
            refused.append(str(error.value))
        with pytest.raises(WrongOwner):
            dealer.send(b"x")

    threads = [threading.Thread(target=misuse, args=(b,)) for b in ["asyncio", "trio"] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 24
    assert all("expected its owner's thread only" in text for text in refused)
    assert dealer.send(b"still usable")
    assert (await router.receive()).frame == b"still usable"


def test_a_second_loop_in_the_same_thread_is_refused(links: Links, sockets: Path) -> None:
    async def park() -> tuple[Router, Dealer]:
        router, dealer, _ = await meet(links, client_endpoint(sockets))
        with anyio.move_on_after(0):
            await router.wait()
        return router, dealer

    router, dealer = anyio.run(park)
    with pytest.raises(WrongOwner, match="another event loop"):
        anyio.run(router.receive)
    for backend in ("asyncio", "trio"):
        with pytest.raises(WrongOwner, match="another event loop"):
            anyio.run(dealer.receive, backend=backend)


def in_forked_child(use: Callable[[], object]) -> str:
    """What `use` raises in a forked child of this process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        text = "nothing"
        try:
            use()
        except WrongOwner as error:
            text = str(error)
        finally:
            os.write(write, text.encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return said


async def test_sockets_are_refused_in_a_forked_child_and_live_on_in_the_parent(
    links: Links, sockets: Path
) -> None:
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,))
    ref = PushRef(links, inbox.endpoint, (Beat,))
    router, dealer, identity = await meet(links, client_endpoint(sockets))
    for use in (
        lambda: ref.send(beat(1)),
        inbox.receive_nowait,
        lambda: router.send(identity, b"x"),
        router.receive_nowait,
        lambda: dealer.send(b"x"),
        dealer.receive_nowait,
        lambda: links.socket(zmq.PUSH),
    ):
        assert "used in its forked child" in in_forked_child(use)
    for close in (ref.close, inbox.close, router.close, dealer.close, links.close):
        assert in_forked_child(close) == "nothing"
    ref.send(beat(2))
    assert await take(inbox) == beat(2)
    assert router.send(identity, b"still here")
    with anyio.fail_after(LIMIT):
        assert await dealer.receive() == b"still here"


def test_two_links_in_one_process_do_not_know_each_other(sockets: Path) -> None:
    with Links() as one, Links() as other:
        first = PullInbox(one, ipc(sockets, "a"), (Beat,))
        second = PullInbox(other, ipc(sockets, "b"), (Beat,))
        one.close()
        assert first.closed
        assert not second.closed
