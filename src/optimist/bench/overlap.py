"""How well planning hides behind the device: what the worker waits for while many requests run steadily."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Any, NamedTuple

import anyio

from optimist.bench.offline import distinct_prompt
from optimist.bench.slow_planning import DELAY_S
from optimist.engine import Engine
from optimist.messages.params import SamplingParams
from optimist.messages.requests import SchedulerStats

REQUESTS, PROMPT, OUTPUT, STEPS = 32, 32, 192, 150
PAIRS = 3
"""runs of each kind, in turn: machines drift"""

OWN_PROCESS = {"groups": ("proposer",)}
PROPOSERS: dict[str, dict[str, Any]] = {
    "none": {},
    "ngram": {"proposer": "ngram"},
    "suffix": {"proposer": "suffix"},
    "self-draft": {"proposer": "self-draft"},
    # Never adapted: every step asks for drafts of every row, and waits for them.
    "ngram, always 3 drafts": {"proposer": "ngram", "draft_tokens": 3},
    "suffix, always 3 drafts": {"proposer": "suffix", "draft_tokens": 3},
    "ngram, own process": {"proposer": "ngram", **OWN_PROCESS},
    "suffix, own process": {"proposer": "suffix", **OWN_PROCESS},
}


class SlowEngine(Engine):
    """Every plan comes DELAY_S later."""

    _cells = "optimist.bench.slow_planning"


class Steady(NamedTuple):
    """Steps of a run in which as many requests began as ended. Times in microseconds."""

    steps: int
    step_us: int
    gap_us: int
    batch_us: int
    drafts_us: int
    steps_ahead: int

    @property
    def gap_a_step_s(self) -> float:
        """Seconds between two steps in which the device has nothing to do."""
        return self.gap_us / self.steps / 1e6

    def shares(self) -> dict[str, Any]:
        """As people read it. Shares are of the worker's time."""
        whole = self.step_us + self.gap_us
        return {
            "steps": self.steps,
            "step_ms": round(self.step_us / self.steps / 1e3, 3),
            "gap_ms": round(self.gap_us / self.steps / 1e3, 3),
            "waits_for_batch": round(self.batch_us / whole, 5),
            "waits_for_drafts": round(self.drafts_us / whole, 5),
            "hands_over": round((self.gap_us - self.batch_us - self.drafts_us) / whole, 5),
            "batch_ahead": round(self.steps_ahead / self.steps, 5),
        }


async def measure(options: dict[str, Any]) -> dict[str, Any]:
    """Every proposer at depth 2, and what a delay of each plan costs at depth 1 and 2.

    options: of an Engine, such as model. In placement `processes`.
    """
    proposers = {name: await _of(name, options) for name in PROPOSERS}
    return {
        "requests": REQUESTS,
        "proposers": proposers,
        "delay": await _delays(options),
    }


async def _of(name: str, options: dict[str, Any]) -> dict[str, Any]:
    made = await steady(Engine(placement="processes", **options, **PROPOSERS[name]))
    return made.shares()


async def _delays(options: dict[str, Any]) -> dict[str, Any]:
    """Gaps between steps with the delay and without, and the share of the delay that depth 2 hides."""
    found: dict[str, Any] = {"delay_ms": 1000 * DELAY_S}
    for depth in (1, 2):
        gaps: dict[type[Engine], list[float]] = {Engine: [], SlowEngine: []}
        for _ in range(PAIRS):
            for kind, seen in gaps.items():
                engine = kind(placement="processes", depth=depth, **options)
                seen.append((await steady(engine)).gap_a_step_s)
        more = [late - soon for soon, late in zip(*gaps.values(), strict=True)]
        found[f"depth_{depth}"] = {
            "gap_ms": [round(1000 * gap, 3) for gap in gaps[Engine]],
            "gap_ms_delayed": [round(1000 * gap, 3) for gap in gaps[SlowEngine]],
            "hidden": round(1 - median(more) / DELAY_S, 4),
        }
    return found


async def steady(engine: Engine, requests: int = REQUESTS, steps: int = STEPS) -> Steady:
    """Keep so many requests running, one in the place of each that ends, for so many steps."""
    params = SamplingParams(max_tokens=OUTPUT, temperature=0, ignore_eos=True)
    numbers = count()

    async def ask() -> None:
        while True:
            asked = distinct_prompt(next(numbers), PROMPT, engine.tokenizer.vocab_size)
            await engine.complete(asked, params)

    seen: list[SchedulerStats] = []
    async with engine, anyio.create_task_group() as group:
        for _ in range(requests):
            group.start_soon(ask)
        # Every prompt has been read once so many tokens are there.
        seen.append(await _told(engine, lambda stats: stats.emitted_tokens >= 4 * requests))
        seen.append(await _told(engine, lambda stats: stats.steps >= seen[0].steps + steps))
        group.cancel_scope.cancel()
    first, last = seen
    return Steady(*(getattr(last, name) - getattr(first, name) for name in Steady._fields))


async def _told(engine: Engine, enough: Callable[[SchedulerStats], bool]) -> SchedulerStats:
    """What the scheduler, which says how things stand a few times a second, says when it is enough."""
    while (stats := engine.gateway.scheduler_stats) is None or not enough(stats):
        await anyio.sleep(0.01)
    return stats
