"""What is said about drafts, in JSON and in metrics."""

from __future__ import annotations

import pytest

from optimist.engine import Engine
from optimist.messages.params import SamplingParams
from optimist.messages.requests import SchedulerStats
from optimist.speculation import said, speculation
from optimist.testing.byte_tokenizer import ByteTokenizer

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_shares_are_of_the_rows_that_had_drafts() -> None:
    stats = SchedulerStats(
        incarnation=1,
        waiting=0,
        running=0,
        free_blocks=1,
        num_blocks=1,
        steps=9,
        preemptions=0,
        prompt_tokens=1,
        cached_tokens=0,
        emitted_tokens=9,
        wasted_tokens=0,
        last_step_at=0.0,
        max_model_len=8,
        draft_rows=4,
        drafted_tokens=12,
        accepted_tokens=6,
        accepted_at=(3, 2, 1),
    )
    assert said("suffix", stats) == {
        "proposer": "suffix",
        "drafted": 12,
        "accepted": 6,
        "draft_length": 3.0,
        "acceptance_length": 2.5,
        "per_position": [0.75, 0.5, 0.25],
    }


def test_before_there_is_anything_to_say_all_is_zero() -> None:
    assert said("none", None)["acceptance_length"] == 1.0


async def test_an_engine_says_what_became_of_its_drafts() -> None:
    engine = Engine(
        tokenizer=ByteTokenizer(272),
        placement="inline",
        executor="optimist.testing.integer_model:IntegerExecutor",
        executor_options={"vocab_size": 272},
        proposer="ngram",
        draft_tokens=3,
    )
    params = SamplingParams(max_tokens=40, temperature=0, ignore_eos=True)
    async with engine:
        answer = await engine.complete([1, 2, 3] * 9, params)
        told = await speculation(engine, len(answer.token_ids))
    assert told["proposer"] == "ngram"
    assert told["drafted"] >= told["accepted"] >= 0
    assert told["acceptance_length"] >= 1.0


@pytest.mark.parametrize("prefix_cache", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
async def test_a_warm_prefix_cache_takes_nothing_from_a_draft_model(
    depth: int, prefix_cache: bool
) -> None:
    engine = Engine(
        "toy",
        "inline",
        tokenizer=ByteTokenizer(97),
        executor="twin_device:TwinExecutor",
        dtype="float64",
        proposer="draft-model",
        draft_model="toy",
        draft_tokens=3,
        depth=depth,
        block_size=4,
        kv_blocks=40,
        max_slots=2,
        prefix_cache=prefix_cache,
    )
    said, cached = [3, 14, 15, 92, 65], 0
    async with engine:
        for _ in range(3):
            # The last draft is right, ends a block, and is nobody's query any more.
            params = SamplingParams(max_tokens=12, temperature=0, ignore_eos=True)
            answer = await engine.complete(said, params, want_text=False)
            cached += answer.usage.cached_tokens
            said += [*answer.token_ids, 7, 8, 9, 7]
        drafts = await speculation(engine, 36)
    assert cached == (16 + 32 if prefix_cache else 0)
    assert drafts["accepted"] == drafts["drafted"] == 24
