"""An engine and the end of event loops."""

from __future__ import annotations

import asyncio
import threading

import pytest

from optimist.engine import Engine
from optimist.messages.errors import EngineEnded, WrongOwner
from optimist.messages.params import SamplingParams
from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS
from optimist.testing.scripted_engine import ScriptedEngine


def hello(_: Admit) -> list[int]:
    return [*b"hello", EOS]


async def ask(engine: Engine) -> str:
    return (await engine.complete("hi")).text


def test_a_second_run_with_the_same_engine_works() -> None:
    engine = ScriptedEngine(hello)

    async def main() -> str:
        async with engine:
            return await ask(engine)

    assert [asyncio.run(main()) for _ in range(2)] == ["hello", "hello"]


def test_after_its_loop_ended_an_unclosed_engine_says_so_and_can_be_started_again() -> None:
    engine = ScriptedEngine(hello)
    asyncio.run(engine.start())
    with pytest.raises(EngineEnded, match=r"its event loop ended .*; start it again"):
        asyncio.run(ask(engine))

    async def again() -> str:
        async with engine:
            return await ask(engine)

    assert asyncio.run(again()) == "hello"
    asyncio.run(engine.close())


def test_cancelling_every_task_of_the_loop_ends_open_requests_with_the_cause() -> None:
    async def main() -> None:
        engine = ScriptedEngine(lambda _: list(b"x" * 10_000))
        await engine.start()
        chunks = engine.generate("hi", SamplingParams(max_tokens=10_000))
        await chunks.__anext__()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.wait(others)
        with pytest.raises(EngineEnded, match="has ended"):
            async for _ in chunks:
                pass
        with pytest.raises(EngineEnded, match="its task was cancelled"):
            await ask(engine)

    asyncio.run(main())


def test_another_thread_with_its_own_loop_is_told_whose_engine_it_is() -> None:
    engine = ScriptedEngine(hello)
    refusals: list[BaseException] = []

    def elsewhere() -> None:
        try:
            asyncio.run(ask(engine))
        except WrongOwner as error:
            refusals.append(error)

    async def main() -> None:
        async with engine:
            thread = threading.Thread(target=elsewhere)
            thread.start()
            while thread.is_alive():
                await asyncio.sleep(0.01)
            thread.join()
            assert await ask(engine) == "hello"

    asyncio.run(main())
    assert len(refusals) == 1 and "another event loop or thread" in str(refusals[0])


def test_a_loop_that_is_closed_without_cancelling_leaves_an_engine_that_says_so() -> None:
    engine = ScriptedEngine(hello)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(engine.start())
    tasks = asyncio.all_tasks(loop)
    loop.close()
    with pytest.raises(EngineEnded, match="ended"):
        asyncio.run(ask(engine))
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001
