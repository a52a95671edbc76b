"""What drafts gain on a text that repeats itself, and what they cost on texts that do not.

Two engines are held side by side and asked in turn, so that a machine that drifts drifts for both.
"""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from statistics import quantiles
from typing import Any, NamedTuple

import anyio

from optimist.bench.texts import CHANGED_WORD, CHATS, REPEAT
from optimist.engine import Engine
from optimist.messages.params import SamplingParams
from optimist.speculation import speculation

PROPOSERS: dict[str, dict[str, Any]] = {
    "ngram": {"proposer": "ngram"},
    # Nothing is remembered of requests that ended: they were the same.
    "suffix": {"proposer": "suffix", "suffix_tokens": 0},
}
PAIRS = 5
"""times that each task is given to both engines, in turn"""

TEMPERATURES = (0.0, 0.7, 1.0)

TOKENS = 400
"""of an answer at most"""

AT_ONCE = 8
"""chats that run side by side, where they do"""


class Task(NamedTuple):
    """prompts: one for each request. at_once: how many of them run side by side."""

    prompts: list[list[dict[str, str]]]
    params: SamplingParams
    at_once: int = 1


async def measure(options: dict[str, Any]) -> dict[str, Any]:
    """For each proposer: tokens a second against none, on each task; of the one that drafts on the
    device, drafts accepted beside the optimum, by temperature. options: of an Engine, such as model.
    """
    from optimist.bench.optimum import measure as beside_optimum

    found = {name: await _against_none(own, options) for name, own in PROPOSERS.items()}
    for temperature in TEMPERATURES:
        made = await beside_optimum("self-draft", options, temperature)
        found.setdefault("self-draft", {})[f"temperature_{temperature:g}"] = made
    return found


async def _against_none(own: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    chat = SamplingParams(max_tokens=TOKENS, temperature=0)
    # Greedy answers of small models go round in circles, which drafts gain by.
    sampled = SamplingParams(max_tokens=TOKENS, temperature=1, seed=1)
    async with AsyncExitStack() as stack:
        plain = await stack.enter_async_context(Engine(**options))
        drafting = await stack.enter_async_context(Engine(**options, **own))
        word = plain.tokenizer.encode(CHANGED_WORD)[0]
        repeat = SamplingParams(max_tokens=TOKENS, temperature=0, logit_bias={word: -100.0})
        return {
            "repeat": await compare(plain, drafting, Task([REPEAT], repeat)),
            "chat": await compare(plain, drafting, Task(CHATS, chat)),
            "chat_sampled": await compare(plain, drafting, Task(CHATS, sampled)),
            f"chat_{AT_ONCE}_at_once": await compare(plain, drafting, Task(CHATS, chat, AT_ONCE)),
        }


async def compare(
    plain: Engine, drafting: Engine, task: Task, pairs: int = PAIRS
) -> dict[str, Any]:
    """Tokens a second of both, pair by pair. ratio: of drafting to plain, above 1 where drafts gain."""
    rates: dict[Engine, list[float]] = {plain: [], drafting: []}
    for engine in rates:
        await _rate(engine, task)
    before = await speculation(drafting, 0)
    for pair in range(pairs):
        for engine in rates if pair % 2 else reversed(rates):
            rates[engine].append(await _rate(engine, task))
    after = await speculation(drafting, 0)
    ratios = [with_drafts / without for without, with_drafts in zip(*rates.values(), strict=True)]
    low, middle, high = quantiles(ratios, n=4, method="inclusive")
    return {
        "tokens_per_s": round(max(rates[plain]), 1),
        "tokens_per_s_drafting": round(max(rates[drafting]), 1),
        "ratio": round(middle, 4),
        "ratio_quartiles": [round(low, 4), round(high, 4)],
        "ratio_range": [round(min(ratios), 4), round(max(ratios), 4)],
        "drafted": after["drafted"] - before["drafted"],
        "accepted": after["accepted"] - before["accepted"],
    }


async def _rate(engine: Engine, task: Task) -> float:
    """Tokens a second. The prompts are in the prefix cache from the second time on."""
    waiting, made = list(task.prompts), list[int]()

    async def ask() -> None:
        while waiting:
            answer = await engine.complete(waiting.pop(), task.params)
            made.append(len(answer.token_ids))

    begun = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(task.at_once):
            group.start_soon(ask)
    return sum(made) / (time.perf_counter() - begun)
