"""Throughput of many requests sent at once, through every actor."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import anyio

from optimist.engine import Engine
from optimist.messages.params import SamplingParams
from optimist.speculation import speculation


async def measure(engine: Engine, *, requests: int, prompt: int, output: int) -> dict[str, Any]:
    """Send `requests` prompts of `prompt` distinct tokens each, and let each run to `output` tokens.

    Returns tokens a second over all, and milliseconds to the first token (median and worst).
    """
    params = SamplingParams(max_tokens=output, temperature=0, ignore_eos=True)
    firsts: list[float] = []
    completions: list[int] = []
    async with engine:
        vocabulary = engine.gateway.tokenizer.vocab_size
        await engine.complete(
            distinct_prompt(requests, prompt, vocabulary), SamplingParams(max_tokens=2)
        )
        begun = time.perf_counter()

        async def one(number: int) -> None:
            tokens = 0
            async for chunk in engine.generate(distinct_prompt(number, prompt, vocabulary), params):
                if not tokens and chunk.token_ids:
                    firsts.append(time.perf_counter() - begun)
                tokens += len(chunk.token_ids)
            completions.append(tokens)

        async with anyio.create_task_group() as group:
            for number in range(requests):
                group.start_soon(one, number)
        seconds = time.perf_counter() - begun
        drafts = await speculation(engine, sum(completions))
        steps = engine.stats().steps
    return {
        "requests": requests,
        "input_tokens": requests * prompt,
        "output_tokens": sum(completions),
        "seconds": round(seconds, 3),
        "output_tokens_per_s": round(sum(completions) / seconds, 2),
        "total_tokens_per_s": round((requests * prompt + sum(completions)) / seconds, 2),
        "requests_per_s": round(requests / seconds, 3),
        "ttft_ms_median": round(1000 * median(firsts), 1),
        "ttft_ms_worst": round(1000 * max(firsts), 1),
        "steps": steps,
        "speculation": drafts,
    }


def distinct_prompt(number: int, length: int, vocabulary: int) -> list[int]:
    """Token ids that no other number shares a prefix with, in the upper half of the vocabulary."""
    low = vocabulary // 2
    return [low + (number * 7919 + at * 104729) % (vocabulary - low) for at in range(length)]
