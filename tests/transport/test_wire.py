"""The life-line: frames over a socketpair, cut anywhere, cancelled anywhere, ended by either side."""

from __future__ import annotations

import socket

import anyio
import anyio.lowlevel
import pytest

from optimist.messages.codec import encode
from optimist.messages.control import Beat, Stop
from optimist.messages.errors import MailboxFull, MessageError
from optimist.transport.base import EndOfInbox
from optimist.transport.wire import MAX_WIRE_BYTES, Wire

pytestmark = pytest.mark.anyio


def beat(number: int, cell: str = "a") -> Beat:
    return Beat(incarnation=number, cell=cell)


def frame(message: Beat | Stop) -> bytes:
    body = encode(message)
    return len(body).to_bytes(4, "big") + body


def pair(max_bytes: int = MAX_WIRE_BYTES) -> tuple[Wire[Beat], Wire[Beat]]:
    one, other = socket.socketpair()
    return Wire(one, (Beat,), max_bytes=max_bytes), Wire(other, (Beat,), max_bytes=max_bytes)


async def test_messages_go_both_ways_in_order() -> None:
    one, other = pair()
    for number in range(100):
        one.send(beat(number))
        other.send(beat(-number))
    assert [(await other.receive()).incarnation for _ in range(100)] == list(range(100))
    assert [(await one.receive()).incarnation for _ in range(100)] == list(range(0, -100, -1))
    one.close()
    other.close()


async def test_a_frame_that_comes_byte_by_byte_is_put_together() -> None:
    raw, end = socket.socketpair()
    wire, got = Wire(end, (Beat,)), []

    async def receive() -> None:
        for _ in range(2):
            got.append(await wire.receive())

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        for byte in frame(beat(1)) + frame(beat(2)):
            raw.send(bytes([byte]))
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
    assert got == [beat(1), beat(2)]
    wire.close()
    raw.close()


async def test_cancelled_receives_lose_nothing() -> None:
    one, other = pair()
    got: list[int] = []
    scope, cancelled = anyio.CancelScope(), 0

    async def send() -> None:
        for number in range(1000):
            one.send(beat(number))
            if number % 3 == 0:
                scope.cancel()
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(send)
            while len(got) < 1000:
                with anyio.CancelScope() as scope:
                    got.append((await other.receive()).incarnation)
                cancelled += scope.cancelled_caught
    assert got == list(range(1000))
    assert cancelled > 0
    one.close()
    other.close()


async def test_more_than_the_socket_holds_is_drained_whole_even_when_cancelled() -> None:
    one, other = pair(max_bytes=8 * 2**20)
    long = "x" * 3_000_000
    one.send(beat(1, long))
    one.send(beat(2, long))
    with anyio.move_on_after(0.01) as scope:
        await one.drain()
    assert scope.cancelled_caught
    got: list[Beat] = []

    async def receive() -> None:
        for _ in range(2):
            got.append(await other.receive())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(receive)
            await one.drain()
    assert got == [beat(1, long), beat(2, long)]
    one.close()
    other.close()


async def test_the_end_comes_after_the_last_message() -> None:
    one, other = pair()
    one.send(beat(1))
    one.close()
    assert await other.receive() == beat(1)
    with pytest.raises(EndOfInbox):
        await other.receive()
    other.send(beat(2))
    await other.drain()
    other.close()


async def test_a_message_cut_off_by_the_end_is_the_end() -> None:
    raw, end = socket.socketpair()
    wire = Wire(end, (Beat,))
    raw.send(frame(beat(1))[:-1])
    raw.close()
    with pytest.raises(EndOfInbox):
        await wire.receive()
    wire.close()


async def test_closing_wakes_the_receiver() -> None:
    (one, other), ended = pair(), []

    async def receive() -> None:
        with pytest.raises(EndOfInbox):
            await one.wait()
        ended.append(True)

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        one.close()
    assert ended
    other.close()


async def test_a_bad_message_is_refused_and_the_next_one_arrives() -> None:
    raw, end = socket.socketpair()
    wire = Wire(end, (Beat,), name="life-line")
    raw.send((3).to_bytes(4, "big") + b"\x00\x01\x02" + frame(Stop(incarnation=1)) + frame(beat(3)))
    with pytest.raises(MessageError):
        await wire.receive()
    with pytest.raises(MessageError, match="stop"):
        await wire.receive()
    assert await wire.receive() == beat(3)
    assert wire.statistics().refused == 2
    wire.close()
    raw.close()


async def test_a_length_beyond_the_limit_ends_the_wire_unread() -> None:
    raw, end = socket.socketpair()
    wire = Wire(end, (Beat,), name="life-line")
    raw.send(b"\xff\xff\xff\xff" + bytes(1000))
    with pytest.raises(MessageError, match=r"life-line: expected at most 1048576 .* 4294967295"):
        await wire.receive()
    with pytest.raises(EndOfInbox):
        await wire.receive()
    wire.close()
    raw.close()


def test_an_end_that_does_not_read_refuses_more_than_the_limit() -> None:
    one, other = pair(max_bytes=1000)
    with pytest.raises(MailboxFull, match="does not read; no room for Beat"):
        for number in range(100_000):
            one.send(beat(number, "x" * 500))
    with pytest.raises(MessageError, match="Beat of at most 1000 bytes"):
        one.send(beat(1, "x" * 2000))
    one.close()
    other.close()
