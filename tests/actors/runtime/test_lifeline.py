"""The socketpair between supervisor and child, beyond what every Wire does."""

from __future__ import annotations

import socket

import anyio
import pytest

from optimist.actors.runtime.lifeline import FROM_CHILD, TO_CHILD, FromChild, LifeLine, ToChild
from optimist.messages.control import Fault, Ready, Stop
from optimist.messages.errors import MessageError
from optimist.transport.base import EndOfInbox

pytestmark = pytest.mark.anyio


def pair() -> tuple[LifeLine[FromChild], LifeLine[ToChild]]:
    ours, theirs = socket.socketpair()
    return LifeLine(ours, FROM_CHILD), LifeLine(theirs, TO_CHILD)


async def test_a_message_then_the_end() -> None:
    parent, child = pair()
    child.send(Ready(incarnation=2, actor="worker"))
    child.close()
    assert await parent.receive() == Ready(incarnation=2, actor="worker")
    with pytest.raises(EndOfInbox):
        await parent.receive()
    parent.close()


async def test_sending_to_one_who_is_gone_loses_the_message_and_nothing_else() -> None:
    parent, child = pair()
    child.close()
    parent.send(Stop(incarnation=0))
    parent.send(Stop(incarnation=0))
    parent.close()


async def test_one_who_does_not_read_makes_no_sender_fail_and_gets_whole_messages_later() -> None:
    parent, child = pair()
    fault = Fault(incarnation=0, actor="worker", reason="r" * 10_000)
    for _ in range(400):
        parent.send(fault)
    got = 0

    async def flush() -> None:
        await parent.drain()
        parent.close()

    async with anyio.create_task_group() as group:
        group.start_soon(flush)
        with pytest.raises(EndOfInbox):
            while True:
                assert await child.receive() == fault
                got += 1
    assert 100 < got < 400
    child.close()


async def test_a_message_of_the_other_direction_is_refused() -> None:
    parent, child = pair()
    child.send(Stop(incarnation=0))
    with pytest.raises(MessageError, match="stop"):
        await parent.receive()
    parent.close()
    child.close()
