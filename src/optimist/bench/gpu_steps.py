"""Steps of whole engines on a GPU: what the device waits for in between, and whether a step waits for it.

The engine runs inline, every actor on one loop and the worker in a thread of its own, so that torch's
profiler, which watches the process, sees the device while the real scheduler and builder drive it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple

import anyio
import torch

from optimist.bench.offline import distinct_prompt
from optimist.engine import Engine
from optimist.kernels.sync_check import VARIABLE
from optimist.messages.params import SamplingParams
from optimist.speculation import speculation

REQUESTS, PROMPT, STEPS, DEPTH = 64, 128, 100, 2

SETTLED = 8
"""tokens that every request has before its steps count: prompts are read, and decoding goes on"""

CHECKED = 48
"""tokens of each request whose steps are checked"""

LARGEST_GAP = 0.05
"""share of a step in which the device may have nothing to do at once"""

TRIMMED = (0.2, 0.1)
"""of what the profiler saw, shares at both ends that do not count: it holds the loop up while it begins and ends"""

PROPOSERS = ("none", "ngram", "self-draft")

Span = tuple[float, float]


class Window(NamedTuple):
    """Steps in which every request decodes. busy: (start, end) of what ran on the device, microseconds."""

    step_us: float
    busy: list[Span]


def engine_of(model: str, options: dict[str, Any], proposer: str = "none") -> Engine:
    """An engine with room for all requests, which ends with the first fault."""
    length = PROMPT + SETTLED + 4 * STEPS
    given: dict[str, Any] = {"max_slots": REQUESTS, "max_model_len": length, "restarts": 0}
    if proposer != "none":
        given |= {"proposer": proposer, "draft_tokens": 3}
    return Engine(model, "inline", depth=DEPTH, **given, **options)


async def gaps(model: str, options: dict[str, Any]) -> dict[str, Any]:
    """Judges that between two kernels of steady decode no gap is longer than LARGEST_GAP of a step."""
    with _profiler():
        # The first time takes long.
        pass
    seen = await decoded(engine_of(model, options))
    return {"requests": REQUESTS, "depth": DEPTH} | judged(seen)


def judged(seen: Window) -> dict[str, Any]:
    """What the gaps of a window say. Too few kernels to tell are a fault."""
    busy = trimmed(seen.busy)
    found = between(busy)
    limit = LARGEST_GAP * seen.step_us
    over = [gap for gap in found if gap > limit]
    span = max((end for _, end in busy), default=0.0) - min((start for start, _ in busy), default=0)
    return {
        "step_ms": round(seen.step_us / 1e3, 3),
        "steps": round(span / seen.step_us, 1),
        "idle_share": round(sum(found) / span, 4) if span else 1.0,
        "largest_gap_of_a_step": round(max(found, default=0.0) / seen.step_us, 4),
        "gaps_over_5_percent": len(over),
        "right": not over and span > 10 * seen.step_us,
    }


async def decoded(engine: Engine) -> Window:
    """All requests at once, watched from where all of them decode, for STEPS steps."""
    counts, found = [0] * REQUESTS, list[float]()
    profiler = _profiler()
    params = SamplingParams(max_tokens=SETTLED + 4 * STEPS, temperature=0, ignore_eos=True)

    async def ask(number: int) -> None:
        prompt = distinct_prompt(number, PROMPT, engine.tokenizer.vocab_size)
        async for chunk in engine.generate(prompt, params):
            counts[number] += len(chunk.token_ids)

    async def reached(tokens: int) -> None:
        while min(counts) < tokens:
            await anyio.sleep(0.005)

    async with engine, anyio.create_task_group() as group:
        for number in range(REQUESTS):
            group.start_soon(ask, number)
        await reached(SETTLED)
        with profiler:
            before, begun = min(counts), perf_counter()
            await reached(before + STEPS)
            step_s = (perf_counter() - begun) / (min(counts) - before)
            found.append(1e6 * step_s)
        group.cancel_scope.cancel()
    return Window(found[0], kernels(profiler.events() or ()))


def _profiler() -> Any:
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])


def kernels(events: Iterable[Any]) -> list[Span]:
    """When the device computed. Copies and fills are no work, and marks are no kernels."""
    return [
        (one.time_range.start, one.time_range.end)
        for one in events
        if one.device_type.name == "CUDA"
        and not one.name.startswith(("Memcpy", "Memset"))
        and not getattr(one, "is_user_annotation", False)
    ]


def trimmed(busy: Iterable[Span]) -> list[Span]:
    """What began between TRIMMED of the first and of the last, in order."""
    spans = sorted(busy)
    if not spans:
        return []
    first, whole = spans[0][0], spans[-1][0] - spans[0][0]
    low, high = first + TRIMMED[0] * whole, first + (1 - TRIMMED[1]) * whole
    return [span for span in spans if low <= span[0] <= high]


def between(busy: Iterable[Span]) -> list[float]:
    """Each time in which nothing ran, between the first start and the last end."""
    spans, found = sorted(busy), list[float]()
    until = spans[0][0] if spans else 0.0
    for start, end in spans:
        if start > until:
            found.append(start - until)
        until = max(until, end)
    return found


async def waits(model: str, options: dict[str, Any]) -> dict[str, Any]:
    """The same requests, greedy, seeded and with everything, with drafts and without: no step may wait.

    Raises what the engine ends with where one does.
    """
    found: dict[str, Any] = {}
    with _checked():
        for proposer in PROPOSERS:
            found[proposer] = await _clean(engine_of(model, options, proposer))
    return {"checked": found, "right": True}


async def _clean(engine: Engine) -> dict[str, Any]:
    tokens = list[int]()

    async def ask(number: int) -> None:
        prompt = distinct_prompt(number, PROMPT, engine.tokenizer.vocab_size)
        # Every prompt says the same twice, so that there is something to draft.
        said = await engine.complete(prompt[: PROMPT // 2] * 2, sampling(number))
        tokens.append(len(said.token_ids))

    async with engine:
        async with anyio.create_task_group() as group:
            for number in range(REQUESTS):
                group.start_soon(ask, number)
        drafts = await speculation(engine, sum(tokens))
        steps = engine.stats().steps
    return {"steps": steps, "tokens": sum(tokens), "drafted": drafts["drafted"]}


def sampling(number: int) -> SamplingParams:
    """Of a request: greedy, drawn with a seed, and with everything that sampling knows, in turn."""
    common: dict[str, Any] = {"max_tokens": CHECKED, "ignore_eos": True, "seed": number}
    match number % 4:
        case 0 | 1:
            return SamplingParams(temperature=0, **common)
        case 2:
            return SamplingParams(temperature=0.8, **common)
        case _:
            return SamplingParams(
                temperature=0.7,
                top_k=50,
                top_p=0.9,
                min_p=0.01,
                presence_penalty=0.5,
                frequency_penalty=0.2,
                repetition_penalty=1.1,
                min_tokens=4,
                logit_bias={3: 1.5},
                logprobs=2,
                **common,
            )


@contextmanager
def _checked() -> Iterator[None]:
    """Steps of this process raise where they wait."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "error"
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
