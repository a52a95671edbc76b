"""The same Engine over real actors, in each placement, on the integer model."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from optimist import Engine, EngineBroken, SamplingParams
from optimist.actors.gateway.chunks import complete
from optimist.testing.byte_tokenizer import ByteTokenizer

pytestmark = pytest.mark.anyio

INTEGERS = "optimist.testing.integer_model:IntegerExecutor"
PLACEMENTS = ("inline", "embedded", "processes")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


def make(placement: Any, **options: Any) -> Engine:
    return Engine(
        placement=placement,
        executor=INTEGERS,
        tokenizer=ByteTokenizer(),
        executor_options={"vocab_size": 272},
        max_model_len=2048,
        **options,
    )


def children() -> list[str]:
    """Process ids of our children."""
    tasks = Path("/proc/self/task").iterdir()
    return [pid for task in tasks for pid in (task / "children").read_text().split()]


async def idle(engine: Engine) -> None:
    """Wait until the scheduler, which speaks a few times a second, says that nothing runs."""
    with anyio.fail_after(60):
        while engine.gateway.live or engine.stats().running:
            await anyio.sleep(0.02)


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_answers_are_those_of_the_seed_and_nothing_is_left(placement: str) -> None:
    params = SamplingParams(max_tokens=24, seed=11, n=2, ignore_eos=True)
    async with make(placement) as engine:
        together = await engine.complete("some prompt", params)
        alone = await engine.complete(
            "some prompt", SamplingParams(max_tokens=24, seed=together.choices[1].end.seed,
                                          ignore_eos=True)
        )  # fmt: skip
        assert [len(choice.token_ids) for choice in together.choices] == [24, 24]
        assert together.choices[0].token_ids != together.choices[1].token_ids
        assert alone.token_ids == together.choices[1].token_ids
        await idle(engine)
        assert engine.max_model_len == 2048
    assert children() == []


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_leaving_early_frees_the_slot(placement: str) -> None:
    async with make(placement, credit=64) as engine:
        async for _ in engine.generate("hi", SamplingParams(max_tokens=1500, ignore_eos=True)):
            break
        await idle(engine)
        result = await engine.complete("hi", SamplingParams(max_tokens=3, ignore_eos=True))
        assert len(result.token_ids) == 3


async def test_a_worker_lost_for_good_is_named_by_every_request() -> None:
    long = SamplingParams(max_tokens=2000, ignore_eos=True)
    async with make("embedded", restarts=0) as engine:
        chunks = engine.generate("hi", long)
        await chunks.__anext__()
        (worker,) = children()
        os.kill(int(worker), signal.SIGKILL)
        with pytest.raises(EngineBroken, match="worker"):
            async for _ in chunks:
                pass
        with pytest.raises(EngineBroken, match="worker"):
            await engine.complete("hi")


async def test_a_lost_worker_comes_back_and_the_stream_goes_on() -> None:
    params = SamplingParams(max_tokens=300, ignore_eos=True, seed=5)
    async with make("embedded") as engine:
        undisturbed = await engine.complete("hi", params)
        chunks = engine.generate("hi", params)
        taken = [await chunks.__anext__()]
        (worker,) = children()
        os.kill(int(worker), signal.SIGKILL)
        taken += [chunk async for chunk in chunks]
        assert complete(taken) == undisturbed
        assert children() != [worker]


async def test_opened_and_closed_again_and_again_no_descriptor_is_left() -> None:
    counts = []
    for _ in range(4):
        async with make("embedded") as engine:
            await engine.complete("hi", SamplingParams(max_tokens=3))
        counts.append(len(os.listdir("/proc/self/fd")))
    assert counts[-1] <= counts[0]
