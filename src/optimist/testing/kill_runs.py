"""Kills actors of a running engine while requests stream, and compares every token with the oracle.

`python -m optimist.testing.kill_runs --runs 50` starts 50 engines in placement `processes`, or another that
has processes, one seed each. It prints a line for each run, and for a failing one the command that repeats it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import anyio

from optimist.actors.config import (
    BuilderConfig,
    EngineConfig,
    Placement,
    SchedulerConfig,
    WorkerConfig,
)
from optimist.actors.runtime.placement import together
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.testing.following import Asked, Follower, answer_to
from optimist.testing.integer_rule import IntegerModel
from optimist.troupe import Troupe, bring_up

MODEL = IntegerModel(vocab_size=272)
INTEGER_EXECUTOR = "optimist.testing.integer_model:IntegerExecutor"
BACKENDS = ("asyncio", "uvloop", "trio")
GROUPS = ((), ("scheduler+builder",), ("worker+builder",), ("worker+builder+scheduler",))
RUN_SECONDS = 60.0


class Kill(NamedTuple):
    """Kill the process of this actor once so many tokens have been delivered in all."""

    actor: str
    after_tokens: int


class Plan(NamedTuple):
    """What a seed decides."""

    config: EngineConfig
    asked: tuple[Asked, ...]
    kills: tuple[Kill, ...]


def plan(seed: int, placement: Placement = "processes", requests: int = 8) -> Plan:
    """The worker's process dies at most once: who is in steps of two dead workers fails by design."""
    rng = random.Random(seed)
    config = _config(rng, placement)
    asked = tuple(
        Asked(
            prompt_ids=tuple(rng.randrange(256) for _ in range(rng.choice([1, 5, 17, 40]))),
            max_tokens=rng.choice([16, 40, 64]),
            temperature=rng.choice([0.0, 1.0]),
            seed=rng.randrange(2**32),
        )
        for _ in range(requests)
    )
    total = sum(one.max_tokens for one in asked)
    actors = rng.sample(
        ["worker", "scheduler", "builder", "scheduler", "builder"], rng.randint(1, 3)
    )
    once = [actor for actor in actors if together(config, "worker", actor)][1:]
    for actor in once:
        actors.remove(actor)
    kills = tuple(Kill(actor, rng.randrange(total)) for actor in actors)
    return Plan(config, asked, tuple(sorted(kills, key=lambda kill: kill.after_tokens)))


def _config(rng: random.Random, placement: Placement) -> EngineConfig:
    block_size = rng.choice([4, 16])
    groups = rng.choice(GROUPS)
    return EngineConfig(
        placement=placement,
        groups=groups if placement == "processes" else (),
        restarts=10,
        scheduler=SchedulerConfig(
            depth=rng.choice([1, 2]),
            max_chunk=rng.choice([3, 512]),
            prefix_cache=rng.random() < 0.7,
        ),
        builder=BuilderConfig(block_size=block_size),
        worker=WorkerConfig(
            executor=INTEGER_EXECUTOR,
            executor_options={"vocab_size": MODEL.vocab_size, "sleep_ms": 1.0},
            block_size=block_size,
            kv_blocks=rng.choice([2048 // block_size, 512 // block_size]),
            max_model_len=256,
        ),
    )


class Wrong(AssertionError):
    """A run did not end as it must."""


async def run(seed: int, placement: Placement = "processes") -> int:
    """One run. Returns how many restarts it took. Raises Wrong with what was not right."""
    config, asked, kills = plan(seed, placement)
    with anyio.fail_after(RUN_SECONDS):
        async with bring_up(config, ByteTokenizer(MODEL.vocab_size)) as troupe:
            assert troupe.gateway is not None
            followers = [Follower(troupe.gateway, one) for one in asked]
            async with anyio.create_task_group() as group:
                for follower in followers:
                    group.start_soon(follower.follow)
                group.start_soon(_kill_all, troupe, followers, kills)
            restarts = troupe.restarts
    for follower in followers:
        want = answer_to(follower.asked, MODEL, config.worker.max_model_len or 0)
        if follower.token_ids != want:
            raise Wrong(f"{follower.asked}: expected {want}, got {follower.token_ids}")
    return restarts


async def _kill_all(troupe: Troupe, followers: Sequence[Follower], kills: Sequence[Kill]) -> None:
    for actor, after_tokens in kills:
        while sum(len(one.token_ids) for one in followers) < after_tokens:
            await anyio.sleep(0.001)
        while (pid := _pid(troupe, actor)) is None:
            await anyio.sleep(0.001)
        before = troupe.restarts
        os.kill(pid, signal.SIGKILL)
        while troupe.restarts == before:
            await anyio.sleep(0.001)


def _pid(troupe: Troupe, actor: str) -> int | None:
    return next((pid for cell, pid in troupe.pids.items() if actor in cell.split("+")), None)


def main() -> int:
    """Run all seeds. Returns 1 when one of them failed."""
    options = _parser().parse_args()
    failed = 0
    for seed in range(options.first_seed, options.first_seed + options.runs):
        began = time.monotonic()
        try:
            restarts = anyio.run(
                partial(run, seed, options.placement),
                backend="trio" if options.backend == "trio" else "asyncio",
                backend_options={"use_uvloop": True} if options.backend == "uvloop" else {},
            )
        except (Exception, ExceptionGroup) as error:  # noqa: BLE001 - the next seed runs all the same
            failed += 1
            again = f"--first-seed {seed} --runs 1 --backend {options.backend}"
            again += f" --placement {options.placement}"
            print(f"seed {seed}: {error!r}; again: python -m {__spec__.name} {again}", flush=True)
        else:
            seconds = time.monotonic() - began
            print(f"seed {seed}: right after {restarts} restarts, {seconds:.1f} s", flush=True)
    print(f"{options.runs - failed} of {options.runs} runs right")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--backend", choices=BACKENDS, default="asyncio")
    parser.add_argument("--placement", choices=("processes", "embedded"), default="processes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
