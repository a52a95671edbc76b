"""For authors of schedulers and executors: does yours keep the promises that the rest relies on?

    from optimist.testing.conformance import check_scheduler
    def test_my_scheduler(): check_scheduler(MyScheduler)

`check_scheduler` puts a scheduler (a class with the constructor of `optimist.actors.scheduler.actor`)
among our builder, worker and integer model. It runs MATRIX, then simulated afternoons in which actors
die and messages come late or twice. Every request must get the tokens of ORACLE; nothing may be lost,
doubled, retracted, or sent beyond its credit; and in the end SchedulerStats must say that nobody waits
or runs and that every block is free.

`check_executor` puts an executor among our actors and runs MATRIX on it. You bring the plain model that
it must equal: a function from tokens to the next token.

From a shell: `python -m optimist.testing.conformance module:Class --seeds 1000`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from optimist.actors.worker.base import Executor, Limits
from optimist.messages.errors import ConfigError
from optimist.testing.late_device import LateDevice
from optimist.testing.matrix import INTEGERS, Cell, Seen, cells, check_cell, inline, pairwise
from optimist.testing.oracle import IntegerOracle, NextToken
from optimist.testing.setup import OURS, Parts, Setup
from optimist.testing.simulation import simulate


def check_scheduler(
    scheduler: Callable[..., Any], *, every: Sequence[Cell] | None = None, seeds: int = 200
) -> None:
    """Raises MatrixRed or SeedFailed, both AssertionErrors, saying where and how it differs.

    every: the cells to run, by default all of MATRIX. seeds: simulated afternoons.
    """
    every = cells() if every is None else every
    check_parts(OURS._replace(scheduler=scheduler), every=every, seeds=seeds)


def check_executor(
    make: Callable[[Limits], Executor],
    next_token: NextToken,
    *,
    vocab_size: int,
    every: Sequence[Cell] | None = None,
    seen: Callable[[Seen], None] | None = None,
) -> None:
    """Raises MatrixRed where an executor made for these limits differs from `next_token`.

    every: the cells to run; by default so many that every pair of options occurs. seen: is told of each.
    """

    def device(setup: Setup, seed: int) -> Executor:
        limits = setup.limits()._replace(vocab_size=vocab_size)
        return LateDevice(make(limits), lateness=setup.lateness, seed=seed)

    for cell in pairwise(cells()) if every is None else every:
        run = inline(OURS._replace(device=device), seen=seen)
        check_cell(cell, run, next_token, vocab_size)


def check_parts(parts: Parts, *, every: Sequence[Cell], seeds: int) -> None:
    """MATRIX and simulation of any parts around the integer model. Raises as `check_scheduler`."""
    next_token = IntegerOracle(INTEGERS)
    for cell in every:
        check_cell(cell, inline(parts), next_token)
    for seed in range(seeds):
        simulate(seed, parts)


def named(path: str) -> Any:
    """The object that `module:Class` names. Raises ConfigError when there is none."""
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"expected module:Class of a scheduler, got {path!r}: {error}") from error


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit status: 1 when the scheduler does not conform."""
    parser = argparse.ArgumentParser(prog="python -m optimist.testing.conformance")
    parser.add_argument("scheduler", help="module:Class")
    parser.add_argument(
        "--seeds", type=int, default=200, help="simulated afternoons (default: 200)"
    )
    chosen = parser.parse_args(arguments)
    try:
        check_scheduler(named(chosen.scheduler), seeds=chosen.seeds)
    except (AssertionError, ConfigError) as failure:
        print(failure, file=sys.stderr)
        return 1
    print(f"{chosen.scheduler} conforms: {len(cells())} cells and {chosen.seeds} seeds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
