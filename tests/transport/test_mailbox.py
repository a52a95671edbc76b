"""The mailbox of one process: order, bounds, classes, closing and cancelling, on every loop."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel
import pytest

from optimist.messages.control import Beat, Ready, Stop
from optimist.messages.errors import ConfigError, MailboxFull, MessageError, WrongOwner
from optimist.transport.base import EndOfInbox, InboxStatistics, Ref
from optimist.transport.mailbox import Mailbox

pytestmark = pytest.mark.anyio


def beat(number: int) -> Beat:
    return Beat(incarnation=number, cell="a")


async def take(inbox: Mailbox[Beat]) -> Beat:
    while (message := inbox.receive_nowait()) is None:
        await inbox.wait()
    return message


async def test_messages_come_out_in_the_order_they_went_in() -> None:
    inbox = Mailbox((Beat,))
    ref = inbox.ref()
    for number in range(100):
        ref.send(beat(number))
    assert [(await take(inbox)).incarnation for _ in range(100)] == list(range(100))
    assert inbox.receive_nowait() is None


async def test_send_wakes_a_parked_receiver() -> None:
    inbox, got = Mailbox((Beat,)), []

    async def receive() -> None:
        got.append(await take(inbox))

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        inbox.ref().send(beat(7))
    assert got == [beat(7)]


async def test_two_sends_before_the_receiver_runs_wake_it_once() -> None:
    inbox, got = Mailbox((Beat,)), []

    async def receive() -> None:
        for _ in range(2):
            got.append((await take(inbox)).incarnation)

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        inbox.ref().send(beat(1))
        inbox.ref().send(beat(2))
    assert got == [1, 2]


async def test_cancelled_waits_lose_nothing() -> None:
    inbox, total = Mailbox((Beat,), capacity=4096), 2000
    got: list[int] = []

    async def send() -> None:
        for number in range(total):
            inbox.ref().send(beat(number))
            if number % 3 == 0:
                await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(send)
        turn = 0
        while len(got) < total:
            turn += 1
            with anyio.CancelScope() as scope:
                if turn % 2:
                    scope.cancel()
                await inbox.wait()
            if turn % 3 == 0 and (message := inbox.receive_nowait()) is not None:
                got.append(message.incarnation)
    assert got == list(range(total))


async def test_send_then_cancel_of_the_parked_receiver_keeps_the_message() -> None:
    inbox = Mailbox((Beat,))
    async with anyio.create_task_group() as group:
        group.start_soon(inbox.wait)
        await anyio.wait_all_tasks_blocked()
        inbox.ref().send(beat(1))
        group.cancel_scope.cancel()
    assert inbox.receive_nowait() == beat(1)


async def test_wait_gives_others_their_turn_while_messages_are_there() -> None:
    inbox, turns = Mailbox((Beat,)), 0
    inbox.ref().send(beat(1))

    async def other() -> None:
        nonlocal turns
        for _ in range(3):
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        while turns < 3:
            await inbox.wait()
    assert inbox.receive_nowait() == beat(1)


async def test_close_lets_the_rest_be_received_and_then_ends() -> None:
    inbox = Mailbox((Beat,))
    inbox.ref().send(beat(1))
    inbox.close()
    inbox.ref().send(beat(2))
    await inbox.wait()
    assert inbox.receive_nowait() == beat(1)
    with pytest.raises(EndOfInbox):
        await inbox.wait()


async def test_close_wakes_a_parked_receiver() -> None:
    inbox, ended = Mailbox((Beat,)), []

    async def receive() -> None:
        with pytest.raises(EndOfInbox):
            await inbox.wait()
        ended.append(True)

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        inbox.close()
    assert ended


async def test_a_second_waiter_is_refused() -> None:
    inbox = Mailbox((Beat,))
    async with anyio.create_task_group() as group:
        group.start_soon(inbox.wait)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(WrongOwner, match="second task"):
            await inbox.wait()
        inbox.ref().send(beat(1))


async def test_send_from_another_thread_is_refused_and_leaves_nothing() -> None:
    inbox, refused = Mailbox((Beat,)), []

    def send() -> None:
        with pytest.raises(WrongOwner, match="thread"):
            inbox.ref().send(beat(1))
        refused.append(True)

    with anyio.CancelScope() as scope:
        scope.cancel()
        await inbox.wait()
    thread = threading.Thread(target=send)
    thread.start()
    thread.join()
    assert refused
    assert inbox.receive_nowait() is None


def test_a_class_that_is_not_accepted_is_named_with_those_that_are() -> None:
    ref: Ref[object] = Mailbox((Beat, Ready), name="gateway").ref()  # type: ignore[assignment]
    with pytest.raises(MessageError, match="gateway: does not accept Stop; accepts Beat, Ready"):
        ref.send(Stop(incarnation=1))
    with pytest.raises(MessageError, match="does not accept dict"):
        ref.send({"type": "beat"})


def test_ordinary_messages_stop_at_the_capacity_and_urgent_ones_at_the_reserve() -> None:
    inbox: Mailbox[Beat | Stop] = Mailbox((Beat, Stop), capacity=2, reserve=1, name="worker")
    ref = inbox.ref()
    ref.send(beat(1))
    ref.send(beat(2))
    with pytest.raises(MailboxFull, match="worker: 2 messages wait"):
        ref.send(beat(3))
    ref.send(Stop(incarnation=1))
    with pytest.raises(MailboxFull, match="Stop"):
        ref.send(Stop(incarnation=1))
    assert inbox.statistics() == InboxStatistics(3, 2, 0, 2)
    assert inbox.receive_nowait() == beat(1)
    assert inbox.statistics() == InboxStatistics(2, 2, 1, 2)


@pytest.mark.parametrize(("value", "same"), [("always", False), ("wire", True)])
def test_messages_pass_through_the_codec_when_asked(
    monkeypatch: pytest.MonkeyPatch, value: str, same: bool
) -> None:
    monkeypatch.setenv("OPTIMIST_CODEC", value)
    inbox, message = Mailbox((Beat,)), beat(1)
    inbox.ref().send(message)
    got = inbox.receive_nowait()
    assert got == message
    assert (got is message) is same


def test_the_codec_finds_a_field_of_the_wrong_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIST_CODEC", "always")
    with pytest.raises(MessageError, match=r"Expected `str`, got `int` - at `\$.cell`"):
        Mailbox((Beat,)).ref().send(Beat(incarnation=1, cell=3))  # type: ignore[arg-type]


def test_wrong_settings_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="capacity >= 1 and reserve >= 0, got 0 and 4096"):
        Mailbox((Beat,), capacity=0)
    monkeypatch.setenv("OPTIMIST_CODEC", "maybe")
    with pytest.raises(ConfigError, match="OPTIMIST_CODEC: expected always or wire, got 'maybe'"):
        Mailbox((Beat,))
