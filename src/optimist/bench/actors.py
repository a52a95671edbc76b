"""How fast messages move: a round trip and a one-way rate, in one process and between two.

The messages pass through the real mailbox and channel, on every event loop that is installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeVar

import anyio

from optimist.messages.base import column
from optimist.messages.codec import encode
from optimist.messages.requests import Tokens
from optimist.transport.base import Inbox, Ref
from optimist.transport.channel import PullInbox, PushRef
from optimist.transport.endpoints import ipc
from optimist.transport.links import Links
from optimist.transport.mailbox import Mailbox

T = TypeVar("T")

LOOPS: dict[str, tuple[str, dict[str, Any]]] = {
    "asyncio": ("asyncio", {"use_uvloop": False}),
    "uvloop": ("asyncio", {"use_uvloop": True}),
    "trio": ("trio", {}),
}
WINDOW = 512
"""messages on their way at once when the one-way rate is measured; half of them are one credit"""

ECHO = Tokens(incarnation=1, request=1, index=0, token_ids=column(range(28)), cached_len=0)
COUNT = Tokens(incarnation=1, request=2, index=0, token_ids=column(range(28)), cached_len=0)


class Ends(NamedTuple):
    """Where one side sends, and where it receives."""

    ref: Ref[Tokens]
    inbox: Inbox[Tokens]


def measure(round_trips: int = 2000, one_way: int = 50_000) -> dict[str, Any]:
    """Both figures for the mailbox and for ipc, on asyncio, uvloop and trio; None if not installed.

    round_trips, one_way: how many messages are measured for each.
    """
    made: dict[str, Any] = {"message_bytes": len(encode(ECHO)), "mailbox": {}, "ipc": {}}
    for loop in LOOPS:
        there = loop == "asyncio" or find_spec(loop) is not None
        for transport, run in (("mailbox", in_one_process), ("ipc", between_two)):
            made[transport][loop] = run(loop, round_trips, one_way) if there else None
    return made


def on_loop(loop: str, run: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Run an async function on the loop of this name."""
    backend, options = LOOPS[loop]
    return anyio.run(run, *arguments, backend=backend, backend_options=options)


async def take(inbox: Inbox[Tokens]) -> Tokens:
    """The next message."""
    while (message := inbox.receive_nowait()) is None:
        await inbox.wait()
    return message


async def echo(ends: Ends, round_trips: int, one_way: int) -> None:
    """The other side: answers every ECHO, and half a window of COUNT with one message."""
    for _ in range(round_trips):
        ends.ref.send(await take(ends.inbox))
    for number in range(1, one_way + 1):
        await take(ends.inbox)
        if number % (WINDOW // 2) == 0:
            ends.ref.send(COUNT)


async def drive(ends: Ends, round_trips: int, one_way: int) -> dict[str, Any]:
    """This side: both figures."""
    times = []
    for _ in range(round_trips):
        begun = time.perf_counter()
        ends.ref.send(ECHO)
        await take(ends.inbox)
        times.append(time.perf_counter() - begun)
    begun = time.perf_counter()
    credit = WINDOW
    for _ in range(one_way):
        if not credit:
            await take(ends.inbox)
            credit = WINDOW // 2
        ends.ref.send(COUNT)
        credit -= 1
    for _ in range(_credits_left(one_way)):
        await take(ends.inbox)
    taken = time.perf_counter() - begun
    times.sort()
    return {
        "round_trip_us": {
            "p50": round(times[len(times) // 2] * 1e6, 2),
            "p99": round(times[len(times) * 99 // 100] * 1e6, 2),
        },
        "messages_per_s": round(one_way / taken),
    }


def _credits_left(one_way: int) -> int:
    """Credits not yet taken when the last message has been sent."""
    half = WINDOW // 2
    taken = max(0, -(-(one_way - WINDOW) // half))
    return one_way // half - taken


def in_one_process(loop: str, round_trips: int, one_way: int) -> dict[str, Any]:
    """Both figures of the mailbox on this loop."""

    async def both() -> dict[str, Any]:
        there, here = Mailbox((Tokens,)), Mailbox((Tokens,))
        made: dict[str, Any] = {}
        async with anyio.create_task_group() as group:
            group.start_soon(echo, Ends(here.ref(), there), round_trips, one_way)
            made = await drive(Ends(there.ref(), here), round_trips, one_way)
        return made

    return on_loop(loop, both)


def between_two(loop: str, round_trips: int, one_way: int) -> dict[str, Any]:
    """Both figures of the channel to another process, on this loop in both."""

    async def near() -> dict[str, Any]:
        with Links() as links:
            ends = connect(links, directory, "here", "there")
            ends.ref.send(ECHO)
            await take(ends.inbox)
            return await drive(ends, round_trips - 1, one_way)

    with tempfile.TemporaryDirectory(prefix="o-") as directory:
        far = (sys.executable, "-m", __name__, directory, loop, str(round_trips), str(one_way))
        with subprocess.Popen(far) as child:
            try:
                return on_loop(loop, near)
            finally:
                child.kill()


def connect(links: Links, directory: str, own: str, other: str) -> Ends:
    """One side of a pair of processes."""
    inbox = PullInbox(links, ipc(directory, own), (Tokens,))
    return Ends(PushRef(links, ipc(directory, other), (Tokens,)), inbox)


async def _child(directory: str, round_trips: int, one_way: int) -> None:
    with Links() as links:
        await echo(connect(links, directory, "there", "here"), round_trips, one_way)
        await anyio.sleep_forever()


if __name__ == "__main__":
    directory_, loop_, round_trips_, one_way_ = sys.argv[1:]
    on_loop(loop_, _child, directory_, int(round_trips_), int(one_way_))
