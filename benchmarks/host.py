"""Processor time that a step costs outside the model, by process and thread.

    python benchmarks/host.py [--placement embedded] [--group ACTORS] [--sizes 1,8,32] [--rounds 5]

Requests decode on the integer model, which sleeps where a network would compute: so caches stay warm,
and in front of a model that reads its weights in every step the same code takes about twice as long.
Least of the rounds. Threads of a process are named by the number of their start, the loop's is 0.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio

from optimist.engine import Engine
from optimist.messages.params import SamplingParams
from optimist.testing.byte_tokenizer import ByteTokenizer

TOKENS = 200
STEP_MS = 1.0
LEAST_US = 3.0
"""threads that take less are not shown"""

Times = dict[tuple[int, int], int]
"""nanoseconds of each (process, thread)"""


def options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--placement", default="embedded")
    parser.add_argument("--group", action="append", default=[], help="actors that share a process")
    parser.add_argument("--sizes", default="1,8,32", help="requests at once, comma separated")
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def children() -> Iterator[int]:
    """Process ids of our children, oldest first."""
    found = (path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    yield from sorted(int(pid) for line in found for pid in line.split())


def times() -> Times:
    """What each thread of ours and of our children has taken so far."""
    taken: Times = {}
    for pid in (os.getpid(), *children()):
        for path in Path(f"/proc/{pid}/task").iterdir():
            run = (path / "schedstat").read_text().split()[0]
            taken[pid, int(path.name)] = int(run)
    return taken


async def measure(engine: Engine, requests: int, rounds: int) -> dict[str, float]:
    """Microseconds of a step, by process and thread."""
    params = SamplingParams(max_tokens=TOKENS, temperature=0, ignore_eos=True)
    least: Times = {}
    for _ in range(rounds):
        before = times()
        async with anyio.create_task_group() as group:
            for number in range(requests):
                group.start_soon(engine.complete, [100 + number, *range(200, 215)], params)
        for thread, taken in times().items():
            spent = taken - before.get(thread, taken)
            least[thread] = min(spent, least.get(thread, spent))
    names = {os.getpid(): "here"} | {pid: f"child {i}" for i, pid in enumerate(children(), 1)}
    spent_us = {f"{names[p]}/{t - p}": ns / 1e3 / TOKENS for (p, t), ns in sorted(least.items())}
    return {name: round(us, 1) for name, us in spent_us.items() if us >= LEAST_US}


async def main() -> None:
    """Print one line for each size."""
    asked = options()
    given: dict[str, Any] = {"placement": asked.placement, "groups": tuple(asked.group)}
    async with Engine(
        **given,
        executor="optimist.testing.integer_model:IntegerExecutor",
        executor_options={"vocab_size": 272, "checked": False, "sleep_ms": STEP_MS},
        tokenizer=ByteTokenizer(),
        kv_blocks=2048,
    ) as engine:
        for requests in map(int, asked.sizes.split(",")):
            spent = await measure(engine, requests, asked.rounds)
            shown = "  ".join(f"{name} {us:g}" for name, us in spent.items())
            print(f"requests {requests}  us a step: {shown}", flush=True)


if __name__ == "__main__":
    anyio.run(main)
