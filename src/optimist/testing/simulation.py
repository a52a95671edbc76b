"""Deterministic simulation: whole engines on virtual time, thousands of them, each from its seed.

`python -m optimist.testing.simulation --seeds 10000` runs seeds 0 to 9999; one that fails prints the
command that replays it.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from optimist.messages.base import ActorMessage
from optimist.testing.edges import Edge
from optimist.testing.gap import GapRule
from optimist.testing.inspector import Inspector
from optimist.testing.plan_rules import PlanRules
from optimist.testing.scenario import Scenario, scenario
from optimist.testing.setup import OURS, Parts
from optimist.testing.trace import shown
from optimist.testing.verdicts import differences, unrest
from optimist.testing.world import World


class SeedFailed(AssertionError):
    """What one seed showed. Its message ends with the command that replays it."""

    def __init__(self, seed: int, problem: str) -> None:
        command = f"python -m optimist.testing.simulation --seed {seed} --verbose"
        super().__init__(f"seed {seed}: {problem}\n  replay: {command}")


class Tally(NamedTuple):
    """What happened in one world, or in many."""

    events: int = 0
    steps: int = 0
    tokens: int = 0
    preemptions: int = 0
    cached_tokens: int = 0
    deaths: int = 0
    resyncs: int = 0
    drafted: int = 0
    accepted: int = 0
    loose_bounds: int = 0

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(*(a + b for a, b in zip(self, other, strict=True)))


def simulate(seed: int, parts: Parts = OURS, *, verbose: bool = False) -> Tally:
    """Run one seed. Raises SeedFailed when anything is not as it must be."""
    drawn = scenario(seed)
    try:
        return _simulate(seed, drawn, parts, verbose=verbose)
    except SeedFailed:
        raise
    except Exception as error:
        raise SeedFailed(seed, f"{type(error).__name__}: {error}") from error


def _simulate(seed: int, drawn: Scenario, parts: Parts, *, verbose: bool) -> Tally:
    world = World(seed, drawn.setup, drawn.wishes, drawn.chaos, parts)
    rules, gap = PlanRules(world), GapRule(world)
    Inspector(world, check=seed % 4 == 0)
    if verbose:
        print(drawn)
        world.edges.watches.append(lambda edge, message: _print(world, edge, message))
    world.run()
    if problems := differences(world) + unrest(world):
        raise SeedFailed(seed, "; ".join(problems))
    return Tally(
        events=world.events,
        steps=rules.steps,
        tokens=sum(len(journal.tokens) for journal in world.gateway.journals.values()),
        preemptions=rules.preemptions,
        cached_tokens=world.gateway.cached_tokens,
        deaths=len(world.deaths),
        resyncs=rules.resyncs,
        drafted=rules.drafted,
        accepted=rules.accepted,
        loose_bounds=gap.loose,
    )


def _print(world: World, edge: Edge, message: ActorMessage) -> None:
    print(
        f"{world.events:5} {1000 * world.now:8.2f} ms  {edge.sender}#{edge.incarnation} -> "
        f"{edge.receiver}: {shown(message)}"
    )


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit status: 1 when a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m optimist.testing.simulation")
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument("--seeds", type=int, default=1000, help="run so many (default: 1000)")
    parser.add_argument("--start", type=int, default=0, help="the first of them (default: 0)")
    parser.add_argument("--verbose", action="store_true", help="print every message")
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.start, chosen.start + chosen.seeds)
    return _run(seeds if chosen.seed is None else [chosen.seed], verbose=chosen.verbose)


@contextmanager
def _errors_only() -> Iterator[None]:
    """Actors that die by thousands do not say so."""
    logger = logging.getLogger("optimist")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _run(seeds: range | list[int], *, verbose: bool) -> int:
    total, failed, begun = Tally(), 0, time.perf_counter()
    with _errors_only():
        for seed in seeds:
            try:
                total = total.plus(simulate(seed, verbose=verbose))
            except SeedFailed as failure:
                failed += 1
                print(failure, file=sys.stderr)
    rate = len(seeds) / (time.perf_counter() - begun)
    counts = ", ".join(f"{value} {name}" for name, value in total._asdict().items())
    print(f"{len(seeds)} seeds, {failed} failed, {rate:.0f} a second: {counts}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
