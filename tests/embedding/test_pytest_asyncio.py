"""A user's own suite, with pytest-asyncio: engines in fixtures, set up and torn down in other tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from optimist import Engine, SamplingParams
from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS
from optimist.testing.scripted_engine import ScriptedEngine


def echo(admit: Admit) -> list[int]:
    """Answers with the prompt."""
    return [*admit.prompt_ids[::4], EOS]


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[Engine]:
    async with ScriptedEngine(echo) as engine:
        yield engine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Engine]:
    engine = ScriptedEngine(echo)
    await engine.start()
    yield engine
    await engine.close()


@pytest.mark.asyncio
async def test_an_engine_from_a_fixture(engine: Engine) -> None:
    assert (await engine.complete("mirror")).text == "mirror"


@pytest.mark.asyncio
async def test_tasks_of_the_test_share_it(engine: Engine) -> None:
    words = ["one", "two", "three", "four"]
    results = await asyncio.gather(*map(engine.complete, words))
    assert [result.text for result in results] == words


@pytest.mark.asyncio
async def test_a_task_that_is_cancelled_leaves_the_engine_well(engine: Engine) -> None:
    begun = asyncio.Event()

    async def read() -> None:
        async for _ in engine.generate("x" * 5000, SamplingParams(max_tokens=5000)):
            begun.set()

    task = asyncio.create_task(read())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await engine.complete("still here")).text == "still here"


@pytest.mark.asyncio
async def test_wait_for_limits_a_request(engine: Engine) -> None:
    assert isinstance(engine, ScriptedEngine)
    engine.scheduler.paused = True
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(engine.complete("never"), 0.02)
    engine.scheduler.paused = False
    assert (await engine.complete("after")).text == "after"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_shared_engine_serves_the_first_test(shared: Engine) -> None:
    assert (await shared.complete("first")).text == "first"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_shared_engine_serves_the_next_test(shared: Engine) -> None:
    assert (await shared.complete("next")).text == "next"


@pytest.mark.asyncio
async def test_no_task_is_left_behind() -> None:
    before = asyncio.all_tasks()
    async with ScriptedEngine(echo) as engine:
        async for _ in engine.generate("leave early"):
            break
    assert asyncio.all_tasks() == before
