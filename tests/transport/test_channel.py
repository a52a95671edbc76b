"""The channel between processes: order, cancelling, bad frames, dead and stuck receivers."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
import zmq
from sockets import beat, take

from optimist.messages.codec import encode
from optimist.messages.control import Beat, Ready, Stop
from optimist.messages.errors import MailboxFull, MessageError, OptimistError
from optimist.transport.base import EndOfInbox
from optimist.transport.channel import PullInbox, PushRef
from optimist.transport.endpoints import ipc
from optimist.transport.links import Links

pytestmark = pytest.mark.anyio


async def test_messages_arrive_in_order_over_ipc_and_tcp(links: Links, sockets: Path) -> None:
    for endpoint in (ipc(sockets, "a"), "tcp://127.0.0.1:*"):
        inbox = PullInbox(links, endpoint, (Beat,))
        ref = PushRef(links, inbox.endpoint, (Beat,))
        for number in range(300):
            ref.send(beat(number))
        assert [(await take(inbox)).incarnation for _ in range(300)] == list(range(300))


async def test_what_is_sent_before_the_receiver_listens_arrives(
    links: Links, sockets: Path
) -> None:
    ref = PushRef(links, ipc(sockets, "late"), (Beat,), capacity=4096)
    for number in range(2000):
        ref.send(beat(number))
    inbox = PullInbox(links, ipc(sockets, "late"), (Beat,))
    assert [(await take(inbox)).incarnation for _ in range(2000)] == list(range(2000))


async def test_waits_cancelled_at_arrival_lose_nothing(links: Links, sockets: Path) -> None:
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,))
    ref, total, cancelled = PushRef(links, inbox.endpoint, (Beat,)), 10_000, 0
    got: list[int] = []
    scope = anyio.CancelScope()

    async def send() -> None:
        for number in range(total):
            while number - len(got) > 500:
                await anyio.sleep(0.0005)
            ref.send(beat(number))
            if number % 3 == 0:
                scope.cancel()
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(send)
            while len(got) < total:
                with anyio.CancelScope() as scope:
                    await inbox.wait()
                cancelled += scope.cancelled_caught
                if (message := inbox.receive_nowait()) is not None:
                    got.append(message.incarnation)
    assert got == list(range(total))
    assert cancelled > 0


async def test_a_parked_receiver_is_woken_by_a_sender_in_the_same_loop(
    links: Links, sockets: Path
) -> None:
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,))
    ref = PushRef(links, inbox.endpoint, (Beat,))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(inbox.wait)
            await anyio.wait_all_tasks_blocked()
            ref.send(beat(1))
    assert inbox.receive_nowait() == beat(1)


async def test_commands_taken_while_nobody_waits_do_not_hide_the_message(
    links: Links, sockets: Path
) -> None:
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,))
    ref = PushRef(links, inbox.endpoint, (Beat,))
    for number in range(50):
        ref.send(beat(number))
        while not inbox.readable:  # reading EVENTS takes the readiness of the descriptor
            await anyio.lowlevel.checkpoint()
        with anyio.fail_after(60):
            await inbox.wait()
        assert inbox.receive_nowait() == beat(number)


async def test_a_socket_that_was_silent_is_heard_again(links: Links, sockets: Path) -> None:
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,))
    ref = PushRef(links, inbox.endpoint, (Beat,))
    for number in range(50):
        with anyio.move_on_after(0):
            await inbox.wait()
        assert inbox.receive_nowait() is None
        assert not inbox.readable
        ref.send(beat(number))
        assert await take(inbox) == beat(number)


async def test_bad_frames_are_counted_reported_and_never_fatal(links: Links, sockets: Path) -> None:
    reports: list[OptimistError] = []
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,), report=reports.append)
    raw = links.socket(zmq.PUSH)
    raw.connect(inbox.endpoint)
    raw.send(b"")
    raw.send(b"\xc1")
    raw.send(encode(Stop(incarnation=1)))
    raw.send_multipart([encode(beat(1)), b"more", b"and more"])
    raw.send(encode(beat(1))[:-1])
    raw.send(encode(beat(2)))
    assert await take(inbox) == beat(2)
    assert inbox.dropped == len(reports) == 5
    assert inbox.statistics().refused == 5
    assert "expected one frame, got 3" in str(reports[3])


async def test_a_long_run_of_bad_frames_gives_others_their_turn(
    links: Links, sockets: Path
) -> None:
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,))
    raw = links.socket(zmq.PUSH)
    raw.connect(inbox.endpoint)
    for _ in range(500):
        raw.send(b"\xc1")
    raw.send(encode(beat(1)))
    assert await take(inbox) == beat(1)
    assert inbox.dropped == 500


async def test_an_oversize_frame_is_not_read_and_others_go_on(links: Links, sockets: Path) -> None:
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,), max_bytes=1000)
    big = links.socket(zmq.PUSH)
    big.reconnect_ivl = -1
    monitor = links.monitor(big, zmq.EVENT_DISCONNECTED)
    big.connect(inbox.endpoint)
    big.send(bytes(5000))
    while not monitor.poll(0):
        await anyio.sleep(0.001)
    PushRef(links, inbox.endpoint, (Beat,)).send(beat(1))
    assert await take(inbox) == beat(1)
    assert inbox.dropped == 0


async def test_a_message_that_is_too_long_is_refused_where_it_is_sent(
    links: Links, sockets: Path
) -> None:
    ref = PushRef(links, ipc(sockets, "a"), (Beat,), max_bytes=100)
    with pytest.raises(MessageError, match="Beat: expected at most 100 bytes, got 2"):
        ref.send(beat(1, "x" * 200))


async def test_a_class_that_is_not_accepted_is_refused_where_it_is_sent(
    links: Links, sockets: Path
) -> None:
    ref: PushRef[Beat | Ready] = PushRef(links, ipc(sockets, "a"), (Beat, Ready))
    with pytest.raises(MessageError, match="does not accept Stop; accepts Beat, Ready"):
        ref.send(Stop(incarnation=1))  # type: ignore[arg-type]


async def test_a_dead_receiver_never_makes_the_sender_fail(links: Links, sockets: Path) -> None:
    with Links() as theirs:
        inbox = PullInbox(theirs, ipc(sockets, "a"), (Beat,))
        ref = PushRef(links, inbox.endpoint, (Beat,), capacity=10)
        ref.send(beat(0))
        assert await take(inbox) == beat(0)
        assert ref.connected
    while ref.connected:
        await anyio.sleep(0.001)
    for number in range(1000):
        ref.send(beat(number))
    assert ref.lost > 0


async def test_a_successor_gets_what_is_sent_to_the_same_path(links: Links, sockets: Path) -> None:
    ref = PushRef(links, ipc(sockets, "a"), (Beat,))
    for life in range(3):
        with Links() as theirs:
            inbox = PullInbox(theirs, ipc(sockets, "a"), (Beat,))
            ref.send(beat(life))
            assert await take(inbox) == beat(life)
        while ref.connected:
            await anyio.sleep(0.001)
    assert ref.lost == 0


async def test_a_receiver_that_lives_and_does_not_read_is_a_credit_violation(
    links: Links, sockets: Path
) -> None:
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,), capacity=4)
    ref = PushRef(links, inbox.endpoint, (Beat,), capacity=4)
    ref.send(beat(0))
    assert await take(inbox) == beat(0)
    with pytest.raises(MailboxFull, match="lives and does not read; no room for Beat"):
        for number in range(10_000):
            ref.send(beat(number, "x" * 10_000))
    assert ref.lost == 0


async def test_a_sender_within_its_credit_never_finds_it_full(links: Links, sockets: Path) -> None:
    credit = 64
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,))
    ref = PushRef(links, inbox.endpoint, (Beat,), capacity=credit)
    for _ in range(200):
        for number in range(credit):
            ref.send(beat(number, "x" * 1000))
        assert [(await take(inbox)).incarnation for _ in range(credit)] == list(range(credit))


async def test_close_ends_a_parked_receiver_and_removes_the_socket_file(
    links: Links, sockets: Path
) -> None:
    inbox, ended = PullInbox(links, ipc(sockets, "a"), (Beat,)), []
    assert (sockets / "a.sock").exists()

    async def receive() -> None:
        with pytest.raises(EndOfInbox):
            await inbox.wait()
        ended.append(True)

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        inbox.close()
        inbox.close()
    assert ended
    assert inbox.receive_nowait() is None
    assert not (sockets / "a.sock").exists()


async def test_a_descriptor_that_is_reused_after_close_wakes_nobody_wrongly(
    links: Links, sockets: Path
) -> None:
    for life in range(30):
        inbox = PullInbox(links, ipc(sockets, f"a{life}"), (Beat,))
        ref = PushRef(links, inbox.endpoint, (Beat,))
        with anyio.move_on_after(0):
            await inbox.wait()
        ref.send(beat(life))
        assert await take(inbox) == beat(life)
        inbox.close()
        ref.close()


async def test_links_close_what_was_left_open_and_senders_only_lose(sockets: Path) -> None:
    links = Links()
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,))
    ref = PushRef(links, inbox.endpoint, (Beat,))
    with anyio.move_on_after(0):
        await inbox.wait()
    links.close()
    ref.send(beat(1))
    assert ref.lost == 1
    with pytest.raises(EndOfInbox):
        await inbox.wait()
