"""Messages that were sent together: one frame on the way, one after the other where they arrive."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
import zmq
from sockets import beat, take

from optimist.messages.codec import Codec, bundle, encode
from optimist.messages.control import Beat, Ready, Stop
from optimist.messages.errors import MessageError
from optimist.transport.base import send_all
from optimist.transport.channel import PullInbox, PushRef
from optimist.transport.endpoints import ipc
from optimist.transport.joint import JointInbox
from optimist.transport.links import Links
from optimist.transport.mailbox import Mailbox

pytestmark = pytest.mark.anyio


async def test_messages_sent_together_arrive_in_order_between_others(
    links: Links, sockets: Path
) -> None:
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,))
    ref = PushRef(links, inbox.endpoint, (Beat,))
    ref.send(beat(0))
    send_all(ref, [beat(number) for number in range(1, 100)])
    send_all(ref, [])
    ref.send(beat(100))
    assert [(await take(inbox)).incarnation for _ in range(101)] == list(range(101))
    assert inbox.statistics().received == 101


async def test_they_share_a_frame_as_far_as_the_receiver_takes_it(
    links: Links, sockets: Path
) -> None:
    raw = links.socket(zmq.PULL)
    raw.bind(ipc(sockets, "a"))
    size = len(encode(beat(1)))
    ref = PushRef(links, ipc(sockets, "a"), (Beat,), max_bytes=5 + 3 * size)
    messages = [beat(number) for number in range(1, 8)]
    ref.send_all(messages)
    codec = Codec((Beat,), max_bytes=5 + 3 * size)
    frames = [raw.recv() for _ in range(3)]
    assert [codec.decode_all(frame) for frame in frames] == [
        messages[:3],
        messages[3:6],
        messages[6:],
    ]


async def test_a_receiver_is_ready_while_something_of_a_frame_is_left(
    links: Links, sockets: Path
) -> None:
    inbox = JointInbox(PullInbox(links, ipc(sockets, "a"), (Beat,)), (Beat,))
    near, far = inbox.ref(), PushRef(links, ipc(sockets, "a"), (Beat,))
    far.send_all([beat(number) for number in range(3)])
    got = [(await take(inbox)).incarnation]
    near.send(beat(10))
    with anyio.fail_after(60):
        while len(got) < 4:
            await inbox.wait()
            message = inbox.receive_nowait()
            got += [] if message is None else [message.incarnation]
    assert [number for number in got if number < 10] == [0, 1, 2] and 10 in got
    assert inbox.receive_nowait() is None


async def test_what_is_left_of_a_frame_is_lost_when_its_receiver_closes(
    links: Links, sockets: Path
) -> None:
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,))
    PushRef(links, inbox.endpoint, (Beat,)).send_all([beat(1), beat(2)])
    assert await take(inbox) == beat(1)
    inbox.close()
    assert not inbox.readable and inbox.receive_nowait() is None


async def test_a_frame_with_one_bad_message_is_dropped_whole_and_one_of_none_as_well(
    links: Links, sockets: Path
) -> None:
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat,))
    raw = links.socket(zmq.PUSH)
    raw.connect(inbox.endpoint)
    raw.send(bundle([encode(beat(1)), encode(Stop(incarnation=1))]))
    raw.send(bundle([encode(beat(1)), b"\xc1"]))
    raw.send(bundle([]))
    raw.send(bundle([encode(beat(1)), encode(beat(2))])[:-1])
    raw.send(bundle([encode(beat(1)), encode(beat(2))]) + b"\0")
    raw.send(encode(beat(3)))
    assert await take(inbox) == beat(3)
    assert inbox.dropped == 5


async def test_nothing_is_sent_where_one_cannot_be(links: Links, sockets: Path) -> None:
    inbox = PullInbox(links, ipc(sockets, "a"), (Beat, Ready))
    ref: PushRef[Beat | Ready] = PushRef(links, inbox.endpoint, (Beat,), max_bytes=100)
    with pytest.raises(MessageError, match="does not accept Ready"):
        ref.send_all([beat(1), Ready(incarnation=1, actor="worker")])
    with pytest.raises(MessageError, match="Beat: expected at most 100 bytes"):
        ref.send_all([beat(1), beat(2, "x" * 200)])
    ref.send(beat(3))
    assert await take(inbox) == beat(3)


async def test_messages_for_a_dead_receiver_are_lost_one_by_one(
    links: Links, sockets: Path
) -> None:
    ref = PushRef(links, ipc(sockets, "a"), (Beat,))
    ref.close()
    ref.send_all([beat(1), beat(2)])
    assert ref.lost == 2


async def test_where_there_are_no_frames_they_are_sent_one_by_one() -> None:
    mailbox = Mailbox((Beat,))
    send_all(mailbox.ref(), [beat(1), beat(2)])
    assert [mailbox.receive_nowait(), mailbox.receive_nowait()] == [beat(1), beat(2)]
