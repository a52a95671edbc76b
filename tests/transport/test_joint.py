"""One inbox for senders near and far: order, waking, ending."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from sockets import beat

from optimist.messages.control import Beat
from optimist.transport.base import EndOfInbox
from optimist.transport.channel import PullInbox, PushRef
from optimist.transport.endpoints import ipc
from optimist.transport.joint import JointInbox
from optimist.transport.links import Links

pytestmark = pytest.mark.anyio


async def test_a_joint_inbox_keeps_the_order_of_each_sender(links: Links, sockets: Path) -> None:
    inbox = JointInbox(PullInbox(links, ipc(sockets, "a"), (Beat,)), (Beat,))
    near, far = inbox.ref(), PushRef(links, ipc(sockets, "a"), (Beat,))
    got: dict[str, list[int]] = {"near": [], "far": []}

    async def send() -> None:
        for number in range(500):
            near.send(beat(number, "near"))
            far.send(beat(number, "far"))
            if number % 5 == 0:
                await anyio.lowlevel.checkpoint()

    async def receive() -> None:
        while len(got["near"]) + len(got["far"]) < 1000:
            with anyio.move_on_after(0.0002):
                await inbox.wait()
            if (message := inbox.receive_nowait()) is not None:
                got[message.cell].append(message.incarnation)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(send)
            group.start_soon(receive)
    assert got == {"near": list(range(500)), "far": list(range(500))}


async def test_what_is_sent_near_by_is_taken_at_once_and_what_comes_from_afar_is_received(
    links: Links, sockets: Path
) -> None:
    inbox = JointInbox(PullInbox(links, ipc(sockets, "a"), (Beat,)), (Beat,))
    far = PushRef(links, ipc(sockets, "a"), (Beat,))
    taken: list[Beat] = []
    inbox.at_once(taken.append, (Beat,))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(inbox.wait)
            await anyio.wait_all_tasks_blocked()
            inbox.ref().send(beat(1))
            assert taken == [beat(1)]
            far.send(beat(2))
    assert inbox.receive_nowait() == beat(2) and taken == [beat(1)]


@pytest.mark.parametrize("source", ["near", "far"])
async def test_a_parked_joint_inbox_is_woken_from_both_sides(
    links: Links, sockets: Path, source: str
) -> None:
    inbox = JointInbox(PullInbox(links, ipc(sockets, "a"), (Beat,)), (Beat,))
    far = PushRef(links, ipc(sockets, "a"), (Beat,))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(inbox.wait)
            await anyio.wait_all_tasks_blocked()
            (inbox.ref() if source == "near" else far).send(beat(1))
    assert inbox.receive_nowait() == beat(1)


async def test_a_joint_inbox_ends_when_closed(links: Links, sockets: Path) -> None:
    inbox = JointInbox(PullInbox(links, ipc(sockets, "a"), (Beat,)), (Beat,))
    inbox.ref().send(beat(1))
    inbox.close()
    await inbox.wait()
    assert inbox.receive_nowait() == beat(1)
    with pytest.raises(EndOfInbox):
        await inbox.wait()
