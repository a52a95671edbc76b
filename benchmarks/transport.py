"""Our mailbox and channel against what they replace, interleaved, on the event loops installed.

The mailbox runs beside anyio's memory object stream, the channel between two processes beside
zmq.asyncio with the same codec (which has no trio). A ratio above 1 says that ours is faster.

    python benchmarks/transport.py [--passes 5] [--round-trips 2000] [--one-way 20000] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import zmq
import zmq.asyncio

from optimist.bench.actors import (
    COUNT,
    ECHO,
    LOOPS,
    WINDOW,
    between_two,
    in_one_process,
    on_loop,
)
from optimist.messages.codec import Codec, encode
from optimist.messages.requests import Tokens

HALF = WINDOW // 2


class Peer(NamedTuple):
    """One side of another transport."""

    send: Callable[[Tokens], Awaitable[object]]
    receive: Callable[[], Awaitable[Tokens]]


async def peer_echo(peer: Peer, round_trips: int, one_way: int) -> None:
    """Answer every ECHO, and half a window of COUNT with one message."""
    for _ in range(round_trips):
        await peer.send(await peer.receive())
    for number in range(1, one_way + 1):
        await peer.receive()
        if number % HALF == 0:
            await peer.send(COUNT)


async def peer_drive(peer: Peer, round_trips: int, one_way: int) -> dict[str, Any]:
    """Both figures, as bench.actors gives them."""
    times = []
    for _ in range(round_trips):
        begun = time.perf_counter()
        await peer.send(ECHO)
        await peer.receive()
        times.append(time.perf_counter() - begun)
    begun, credits = time.perf_counter(), 0
    for number in range(one_way):
        if number >= WINDOW and number % HALF == 0:
            await peer.receive()
            credits += 1
        await peer.send(COUNT)
    for _ in range(one_way // HALF - credits):
        await peer.receive()
    rate = one_way / (time.perf_counter() - begun)
    return {
        "round_trip_us": {"p50": statistics.median(times) * 1e6},
        "messages_per_s": rate,
    }


def memory_stream(loop: str, round_trips: int, one_way: int) -> dict[str, Any]:
    """anyio's memory object streams, in one process."""

    async def both() -> dict[str, Any]:
        to_far, far_in = anyio.create_memory_object_stream[Tokens](1024)
        to_near, near_in = anyio.create_memory_object_stream[Tokens](1024)
        made: dict[str, Any] = {}
        async with to_far, far_in, to_near, near_in, anyio.create_task_group() as group:
            far = Peer(to_near.send, far_in.receive)
            group.start_soon(peer_echo, far, round_trips, one_way)
            made = await peer_drive(Peer(to_far.send, near_in.receive), round_trips, one_way)
        return made

    return on_loop(loop, both)


def zmq_asyncio(loop: str, round_trips: int, one_way: int) -> dict[str, Any]:
    """zmq.asyncio over ipc, between two processes."""

    async def near() -> dict[str, Any]:
        with zmq.asyncio.Context() as context:
            peer = _connect(context, directory, "near", "far")
            made = await peer_drive(peer, round_trips, one_way)
            context.destroy(linger=0)
        return made

    with tempfile.TemporaryDirectory(prefix="o-") as directory:
        arguments = (directory, loop, str(round_trips), str(one_way))
        with subprocess.Popen((sys.executable, __file__, "--far", *arguments)) as child:
            try:
                return on_loop(loop, near)
            finally:
                child.kill()


def _connect(context: zmq.asyncio.Context, directory: str, own: str, other: str) -> Peer:
    codec = Codec((Tokens,))
    push, pull = context.socket(zmq.PUSH), context.socket(zmq.PULL)
    pull.bind(f"ipc://{Path(directory) / own}")
    push.connect(f"ipc://{Path(directory) / other}")

    async def receive() -> Tokens:
        return codec.decode(await pull.recv())

    return Peer(lambda message: push.send(encode(message)), receive)


async def _far(directory: str, round_trips: int, one_way: int) -> None:
    with zmq.asyncio.Context() as context:
        await peer_echo(_connect(context, directory, "far", "near"), round_trips, one_way)
        await anyio.sleep_forever()


def compare(passes: int, round_trips: int, one_way: int) -> dict[str, Any]:
    """Medians over the passes, and the ratios with their spread."""
    result: dict[str, Any] = {}
    for loop in LOOPS:
        if loop != "asyncio" and find_spec(loop) is None:
            continue
        pairs = {"mailbox": (in_one_process, memory_stream), "ipc": (between_two, zmq_asyncio)}
        for name, (ours, theirs) in pairs.items():
            if name == "ipc" and loop == "trio":
                continue
            runs = [
                (ours(loop, round_trips, one_way), theirs(loop, round_trips, one_way))
                for _ in range(passes)
            ]
            result[f"{name}, {loop}"] = _ratios(runs)
    return result


def _ratios(runs: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    trips = [theirs["round_trip_us"]["p50"] / ours["round_trip_us"]["p50"] for ours, theirs in runs]
    rates = [ours["messages_per_s"] / theirs["messages_per_s"] for ours, theirs in runs]
    return {
        "round_trip_us": round(statistics.median(o["round_trip_us"]["p50"] for o, _ in runs), 1),
        "messages_per_s": round(statistics.median(o["messages_per_s"] for o, _ in runs)),
        "round_trip_ratio": _spread(trips),
        "rate_ratio": _spread(rates),
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 2),
        "least": round(min(values), 2),
        "most": round(max(values), 2),
    }


def main() -> None:
    """Compare, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--round-trips", type=int, default=2000)
    parser.add_argument("--one-way", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = compare(options.passes, options.round_trips, options.one_way)
    if options.json:
        print(json.dumps(result))
        return
    for name, row in result.items():
        trip, rate = row["round_trip_ratio"], row["rate_ratio"]
        print(
            f"{name:<18} {row['round_trip_us']:>7} us, x{trip['median']} "
            f"({trip['least']} to {trip['most']}); {row['messages_per_s']:>9} msg/s, "
            f"x{rate['median']} ({rate['least']} to {rate['most']})"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--far"]:
        directory_, loop_, round_trips_, one_way_ = sys.argv[2:]
        on_loop(loop_, _far, directory_, int(round_trips_), int(one_way_))
    else:
        main()
