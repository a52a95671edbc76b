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
from optimist.messages.errors import ConfigError
from optimist.messages.params import SamplingParams
from optimist.speculation import speculation

PROPOSERS: dict[str, dict[str, Any]] = {
    "ngram": {"proposer": "ngram"},
    # Nothing is remembered of requests that ended: they were the same.
    "suffix": {"proposer": "suffix", "suffix_tokens": 0},
    "self-draft": {"proposer": "self-draft"},
}
PAIRS = 5
"""times that each task is given to both engines, in turn"""

TEMPERATURES = (0.0, 0.7, 1.0)

REPEATED, TOKENS = 400, 64
"""of an answer at most: of the text that is repeated, and of a chat"""

AT_ONCE = 8
"""chats that run side by side, where they do"""

TASKS = ("repeat", "chat", "chat_sampled", "chat_8_at_once")

PARTS = (*PROPOSERS, "optimum")
"""what is measured: tasks with a proposer, all or, as in `ngram/chat`, one; and drafts beside the optimum"""


class Task(NamedTuple):
    """prompts: one for each request. at_once: how many of them run side by side."""

    prompts: list[list[dict[str, str]]]
    params: SamplingParams
    at_once: int = 1


async def measure(
    options: dict[str, Any], parts: str = "ngram,suffix,optimum", pairs: int = PAIRS
) -> dict[str, dict[str, Any]]:
    """For each proposer: tokens a second against none, on each task; of the one that drafts on the
    device, drafts accepted beside the optimum, by temperature.

    options: of an Engine, such as model. parts: which, separated by commas: see PARTS; those of the
    default take about six minutes. pairs: times that each task is given to both engines, at least 2;
    of tasks with several requests at once, half as many times for each of these.
    Raises ConfigError for an unknown part or too few pairs.
    """
    from optimist.bench.optimum import measure as beside_optimum

    if pairs < 2:
        raise ConfigError(
            f"--pairs: expected at least 2, between which there is a median, got {pairs}"
        )
    found: dict[str, dict[str, Any]] = {}
    for name, tasks in chosen(parts).items():
        if name == "optimum":
            found.setdefault("self-draft", {}).update(
                {
                    f"temperature_{one:g}": await beside_optimum("self-draft", options, one)
                    for one in TEMPERATURES
                }
            )
        else:
            gains = await _against_none(PROPOSERS[name], options, tasks, pairs)
            found.setdefault(name, {}).update(gains)
    return found


def chosen(parts: str) -> dict[str, list[str]]:
    """The tasks of each part that is named, none of the optimum. Raises ConfigError for an unknown one."""
    found: dict[str, list[str]] = {}
    for part in parts.split(","):
        name, slash, task = part.partition("/")
        if name not in PARTS or (slash and (name == "optimum" or task not in TASKS)):
            raise ConfigError(
                f"--parts: expected {', '.join(PARTS)}, or one of {', '.join(PROPOSERS)} followed by a "
                f"slash and one of {', '.join(TASKS)}; got {part!r}"
            )
        mine = found.setdefault(name, [])
        if name != "optimum":
            mine += [one for one in ([task] if slash else TASKS) if one not in mine]
    return found


async def _against_none(
    own: dict[str, Any], options: dict[str, Any], tasks: list[str], pairs: int
) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        plain = await stack.enter_async_context(Engine(**options))
        drafting = await stack.enter_async_context(Engine(**options, **own))
        every = _tasks(plain.tokenizer.encode(CHANGED_WORD)[0])
        return {name: await compare(plain, drafting, every[name], pairs) for name in tasks}


def _tasks(changed: int) -> dict[str, Task]:
    """By name. changed: the token that may not be repeated."""
    repeat = SamplingParams(max_tokens=REPEATED, temperature=0, logit_bias={changed: -100.0})
    chat = SamplingParams(max_tokens=TOKENS, temperature=0)
    # Greedy answers of small models go round in circles, which drafts gain by.
    sampled = SamplingParams(max_tokens=TOKENS, temperature=1, seed=1)
    made = (Task([REPEAT], repeat), Task(CHATS, chat), Task(CHATS, sampled))
    return dict(zip(TASKS, (*made, Task(CHATS, chat, AT_ONCE)), strict=True))


async def compare(
    plain: Engine, drafting: Engine, task: Task, pairs: int = PAIRS
) -> dict[str, Any]:
    """Tokens a second of both, pair by pair. ratio: of drafting to plain, above 1 where drafts gain.

    Within a pair the engines take turns after every prompt, or after as many as run at once.
    """
    rates: dict[Engine, list[float]] = {plain: [], drafting: []}
    # The prompts are in the prefix cache from the second time on.
    await _pair(list(rates), task)
    before = await speculation(drafting, 0)
    # What takes less time needs more pairs for a median that stands still.
    for pair in range(pairs * max(1, task.at_once // 2)):
        turns = list(rates) if pair % 2 else list(reversed(rates))
        for engine, rate in (await _pair(turns, task)).items():
            rates[engine].append(rate)
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


async def _pair(turns: list[Engine], task: Task) -> dict[Engine, float]:
    """Tokens a second of each engine over the whole task."""
    tokens, seconds = dict.fromkeys(turns, 0), dict.fromkeys(turns, 0.0)
    for first in range(0, len(task.prompts), task.at_once):
        for engine in turns:
            begun = time.perf_counter()
            tokens[engine] += await _answers(
                engine, task.prompts[first : first + task.at_once], task.params
            )
            seconds[engine] += time.perf_counter() - begun
    return {engine: tokens[engine] / seconds[engine] for engine in turns}


async def _answers(
    engine: Engine, prompts: list[list[dict[str, str]]], params: SamplingParams
) -> int:
    """Tokens of the answers to all of these, asked at once."""
    made = list[int]()

    async def ask(prompt: list[dict[str, str]]) -> None:
        made.append(len((await engine.complete(prompt, params)).token_ids))

    async with anyio.create_task_group() as group:
        for prompt in prompts:
            group.start_soon(ask, prompt)
    return sum(made)
