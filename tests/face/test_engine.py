from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from waiting import timed_out, until

from optimist.engine import Engine
from optimist.messages.client import ChatMessage
from optimist.messages.errors import ConfigError, EngineClosed, EngineEnded
from optimist.messages.params import SamplingParams
from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS
from optimist.testing.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.anyio


def hello(_: Admit) -> list[int]:
    return [*b"hello", EOS]


def endless(_: Admit) -> list[int]:
    return list(b"x" * 100_000)


LONG = SamplingParams(max_tokens=100_000)


@pytest.fixture
async def engine() -> AsyncIterator[ScriptedEngine]:
    async with ScriptedEngine(hello) as engine:
        yield engine


async def free(engine: ScriptedEngine) -> None:
    """Wait until nothing runs any more."""
    await until(lambda: not (engine.scheduler.requests or engine.gateway.live))


async def test_a_prompt_is_streamed_token_by_token(engine: ScriptedEngine) -> None:
    chunks = [chunk async for chunk in engine.generate("hi", SamplingParams(max_tokens=10))]
    assert "".join(chunk.text for chunk in chunks) == "hello"
    assert [chunk.index for chunk in chunks] == sorted({chunk.index for chunk in chunks})
    assert [chunk.finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].finish_reason == "stop"
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 6


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("hi", b"hi"),
        ([104, 105], b"hi"),
        ((104, 105), b"hi"),
        ([{"role": "user", "content": "hi"}], b"user: hi\x00assistant: "),
        ([ChatMessage(role="user", content="hi")], b"user: hi\x00assistant: "),
    ],
)
async def test_a_prompt_is_a_text_or_ids_or_a_chat(
    engine: ScriptedEngine, prompt: Any, ids: bytes
) -> None:
    assert (await engine.complete(prompt)).text == "hello"
    (admit,) = engine.scheduler.admits
    assert len(admit.prompt_ids) == 4 * len(ids)


async def test_several_requests_run_at_once(engine: ScriptedEngine) -> None:
    texts: list[str] = []

    async def one() -> None:
        texts.append((await engine.complete("hi")).text)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(one)
    assert texts == ["hello"] * 20


async def test_leaving_the_loop_frees_the_slot() -> None:
    async with ScriptedEngine(endless) as engine:
        async for _ in engine.generate("hi", LONG):
            break
        await free(engine)


async def test_closing_the_generator_frees_the_slot_and_ends_it() -> None:
    async with ScriptedEngine(endless) as engine:
        async with aclosing(engine.generate("hi", LONG)) as chunks:
            await chunks.__anext__()
        await free(engine)
        assert [chunk async for chunk in chunks] == []


async def test_dropping_the_generator_in_a_cycle_frees_the_slot() -> None:
    async with ScriptedEngine(endless) as engine:
        chunks = engine.generate("hi", LONG)
        await chunks.__anext__()
        cycle: list[Any] = [chunks]
        cycle.append(cycle)
        del chunks, cycle
        gc.collect()
        await free(engine)


async def test_cancelling_the_consumer_frees_the_slot() -> None:
    async with ScriptedEngine(endless, credit=4) as engine:
        taken = anyio.Event()

        async def consume() -> None:
            async for _ in engine.generate("hi", LONG):
                taken.set()

        async with anyio.create_task_group() as group:
            group.start_soon(consume)
            await taken.wait()
            group.cancel_scope.cancel()
        await free(engine)


async def test_a_timeout_around_one_chunk_frees_the_slot() -> None:
    async with ScriptedEngine(endless) as engine:
        engine.scheduler.paused = True
        chunks = engine.generate("hi", LONG)
        await timed_out(chunks.__anext__, lambda: engine.scheduler.requests)
        assert len(engine.scheduler.admits) == 1
        await free(engine)


async def test_a_slow_reader_delays_no_other() -> None:
    async with ScriptedEngine(lambda _: [*b"x" * 50, EOS], credit=4) as engine:
        never = engine.generate("never read")
        slow = engine.generate("slow")
        await slow.__anext__()
        for _ in range(3):
            assert (await engine.complete("quick")).text == "x" * 50
        assert sum([len(chunk.token_ids) async for chunk in slow]) <= 50
        await never.aclose()
        await free(engine)


async def test_closing_ends_open_requests_by_name_and_twice_is_once() -> None:
    engine = ScriptedEngine(endless)
    await engine.start()
    chunks = engine.generate("hi", LONG)
    await chunks.__anext__()
    await engine.close()
    await engine.close()
    with pytest.raises(EngineClosed, match="closed"):
        async for _ in chunks:
            pass
    with pytest.raises(EngineClosed):
        await engine.complete("hi")


async def test_before_the_start_it_says_how_to_start() -> None:
    with pytest.raises(EngineEnded, match="async with"):
        await ScriptedEngine(hello).complete("hi")


async def test_it_can_be_started_again_after_closing() -> None:
    engine = ScriptedEngine(hello)
    for _ in range(3):
        async with engine:
            await engine.start()
            assert (await engine.complete("hi")).text == "hello"


async def test_several_engines_share_a_loop() -> None:
    async with ScriptedEngine(hello) as one, ScriptedEngine(lambda _: [*b"two", EOS]) as two:
        assert (await two.complete("hi")).text == "two"
        assert (await one.complete("hi")).text == "hello"


async def test_started_in_one_task_and_closed_in_another() -> None:
    engine = ScriptedEngine(hello)
    async with anyio.create_task_group() as group:
        group.start_soon(engine.start)
    assert (await engine.complete("hi")).text == "hello"
    async with anyio.create_task_group() as group:
        group.start_soon(engine.close)


async def test_a_failing_start_raises_its_own_error() -> None:
    class Failing(ScriptedEngine):
        def _bring_up(self) -> Any:
            raise ConfigError("no such model")

    engine = Failing(hello)
    with pytest.raises(ConfigError, match="no such model"):
        await engine.start()
    with pytest.raises(EngineEnded, match="not started"):
        await engine.complete("hi")


async def test_an_unclosed_engine_complains_and_ends() -> None:
    engine = ScriptedEngine(hello)
    await engine.start()
    life = engine._life  # noqa: SLF001 - what the dropped engine leaves behind
    assert life is not None
    with pytest.warns(ResourceWarning, match="without close"):
        del engine
    await until(lambda: life.over)


async def test_an_option_of_several_actors_is_set_in_all() -> None:
    config = Engine("some/model.gguf", block_size=32, depth=1, credit=9).config
    assert (config.worker.block_size, config.builder.block_size) == (32, 32)
    assert (config.worker.model, config.gateway.model) == ("some/model.gguf",) * 2
    assert (config.scheduler.depth, config.gateway.credit) == (1, 9)
    assert config.placement == "embedded"
