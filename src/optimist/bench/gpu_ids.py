"""Greedy ids of a GPU beside those of another implementation, or of this machine's CPU worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import anyio

from optimist.bench.texts import CHATS, REPEAT
from optimist.engine import Engine
from optimist.messages.params import SamplingParams
from optimist.testing.golden import DOUBT, Case, Run, cases, differences, sure

TOKENS = 32
"""of each answer, where no file says"""

_PASSAGE = REPEAT[1]["content"]
TEXTS = tuple(f"{_PASSAGE}\n\n{_PASSAGE[: 100 * at]}" for at in range(1, 5)) + tuple(
    chat[0]["content"] for chat in CHATS
)
"""what is continued: a passage once more, which leaves little doubt, and questions, which leave much"""

WIDE_DOUBT = 0.5
"""margin under which rounding in bfloat16 may decide"""

PROPOSERS = ("none", "ngram", "self-draft")
"""without drafts, and with drafts of the host and of the device: at depth 2 their batches know bounds alone"""


class Told(NamedTuple):
    """A prompt, the answer to it, and the margin between the two likeliest logits at each place."""

    prompt: list[int]
    tokens: list[int]
    margins: list[float]


async def compare(model: str, golden: str, options: dict[str, Any]) -> dict[str, Any]:
    """Greedy ids of engines with these options, in both dtypes, with drafts and without.

    golden: a file as optimist.testing.golden reads it; "" compares with the CPU worker in float32, in
    which case float32 has to say the same in every place. Returns what was compared, what differs, and
    `right`.
    """
    asked = await _asked(model, golden)
    about, wrong = list[str](), list[str]()
    for dtype, of in asked.items():
        for proposer in PROPOSERS:
            run = Run("inline", 2, proposer, model)
            found, said = await differences(run, of, model=model, dtype=dtype, **options)
            about.append(f"{dtype}, {said}")
            wrong += [f"{dtype}, {proposer}: {one}" for one in found]
    return {
        "beside": golden or "the CPU worker in float32",
        "runs": about,
        "wrong": wrong,
        "right": not wrong and all(any(case.tokens for case in of) for of in asked.values()),
    }


async def _asked(model: str, golden: str) -> dict[str, list[Case]]:
    if golden:
        path = Path(golden)
        return {"float32": cases(path, DOUBT), "bfloat16": cases(path, WIDE_DOUBT)}
    told = await on_host(model)
    return {
        "float32": [Case(one.prompt, one.tokens) for one in told],
        "bfloat16": [sure(*one, WIDE_DOUBT) for one in told],
    }


async def on_host(model: str) -> list[Told]:
    """What the CPU worker of this machine answers."""
    told = list[Told]()
    params = SamplingParams(max_tokens=TOKENS, temperature=0, logprobs=2)
    async with Engine(model, "inline", device="cpu", dtype="float32") as engine:

        async def ask(prompt: list[int]) -> None:
            said = await engine.complete(prompt, params)
            tops = [one.top for one in said.logprobs or ()]
            margins = [top[0].logprob - top[1].logprob for top in tops]
            told.append(Told(prompt, list(said.token_ids), margins))

        async with anyio.create_task_group() as group:
            for text in TEXTS:
                group.start_soon(ask, engine.tokenizer.encode(text))
    return told
