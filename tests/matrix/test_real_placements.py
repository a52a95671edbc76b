"""The default model through whole engines, in other placements and after its worker was killed: tokens and
their log probabilities are, to the bit, those of texts that one thread computes one after the other.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest

from optimist.actors.config import Placement
from optimist.actors.gateway.chunks import Chunk, Completion, complete
from optimist.engine import Engine
from optimist.messages.params import SamplingParams

pytestmark = pytest.mark.anyio

TOKENS = 24
SENTENCE = "The cat sat on the mat, and the dog sat on the log. "
PROMPTS = (SENTENCE * 9 + "The", SENTENCE * 9 + "Once", "Once upon a time", "1, 2, 3, 1, 2, 3, 1,")
PARAMS = (
    SamplingParams(max_tokens=TOKENS, temperature=0.0, ignore_eos=True, logprobs=2),
    SamplingParams(max_tokens=TOKENS, seed=3, ignore_eos=True, logprobs=2, top_p=0.9),
    SamplingParams(max_tokens=TOKENS, seed=4, ignore_eos=True, logprobs=2, frequency_penalty=0.3),
    SamplingParams(max_tokens=TOKENS, temperature=0.0, ignore_eos=True, logprobs=2),
)


class Case(NamedTuple):
    """A pair of placement and format, with options that change how rows come together."""

    placement: Placement
    quant: str
    options: dict[str, Any]
    kill: bool = False

    def __str__(self) -> str:
        return f"{self.placement}-{self.quant}{'-killed' * self.kill}"


CASES = (
    Case("embedded", "none", {"threads": 2, "max_chunk": 48, "proposer": "suffix"}),
    Case("processes", "int4", {"threads": 2, "max_chunk": 200, "proposer": "self-draft"}),
    Case("processes", "int8", {"threads": 1, "depth": 1, "max_slots": 2, "kv_blocks": 24}),
    Case("embedded", "int8", {"threads": 2, "max_chunk": 31, "proposer": "ngram"}, kill=True),
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def engine_of(placement: Placement, quant: str, options: dict[str, Any]) -> Engine:
    sizes: dict[str, Any] = {"max_slots": 4, "kv_blocks": 64} | options
    return Engine(None, placement, quant=quant, max_model_len=256, **sizes)


async def answer(engine: Engine, i: int, *, kill: bool = False) -> Completion:
    """The text of a prompt. kill: the worker, when it has begun."""
    chunks: list[Chunk] = []
    async for chunk in engine.generate(PROMPTS[i], PARAMS[i]):
        if kill and not chunks:
            os.kill(only_child(), signal.SIGKILL)
        chunks.append(chunk)
    return complete(chunks)


def only_child() -> int:
    (found,) = children()
    return int(found)


def children() -> list[str]:
    """Process ids of our children."""
    tasks = Path("/proc/self/task").iterdir()
    return [pid for task in tasks for pid in (task / "children").read_text().split()]


def native_threads(process: str) -> int:
    """Of a process, beside those that call the library."""
    names = [task / "comm" for task in Path("/proc", process, "task").iterdir()]
    return sum(name.read_text() == "optimist-native\n" for name in names)


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_text_is_that_of_one_thread_computing_it_alone(case: Case) -> None:
    plain = {"threads": 1, "prefix_cache": False, "max_chunk": 512}
    async with engine_of("inline", case.quant, plain) as engine:
        want = [await answer(engine, i) for i in range(len(PROMPTS))]
    found: dict[int, Completion] = {}

    async def ask(i: int) -> None:
        found[i] = await answer(engine, i, kill=case.kill and i == 2)

    engine = engine_of(case.placement, case.quant, case.options)
    async with engine, anyio.create_task_group() as group:
        for i in range(len(PROMPTS)):
            group.start_soon(ask, i)
    for i, one in enumerate(want):
        assert found[i].token_ids == one.token_ids
        assert found[i].logprobs == one.logprobs
        assert len(one.token_ids) == TOKENS


@pytest.mark.parametrize("placement", ["inline", "embedded"])
async def test_two_engines_at_once_are_right_and_those_of_one_process_share_its_threads(
    placement: Placement,
) -> None:
    options = {"threads": 2}
    one, other = (engine_of(placement, "int4", options) for _ in range(2))
    found: dict[Engine, Completion] = {}

    async def ask(engine: Engine) -> None:
        found[engine] = await answer(engine, 3)

    async with one, other:
        alone = await answer(one, 3)
        async with anyio.create_task_group() as group:
            group.start_soon(ask, one)
            group.start_soon(ask, other)
        computing = ["self"] if placement == "inline" else children()
        assert [native_threads(process) for process in computing] == [1] * len(computing)
    assert [found[engine].logprobs for engine in (one, other)] == [alone.logprobs] * 2
