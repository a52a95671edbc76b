"""What can go wrong while an engine starts, and what its caller sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from integer_stage import Sleeps, config, gone, right_answers
from waiting import until

from optimist.actors.config import EngineConfig, Placement, SchedulerConfig
from optimist.messages.control import Progress
from optimist.messages.errors import ConfigError, EngineBroken, ModelError
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.troupe import bring_up

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"]),
]

PLACEMENTS: tuple[Placement, ...] = ("inline", "embedded", "processes")


async def fails_to_start(placement: EngineConfig) -> None:
    async with bring_up(placement, ByteTokenizer(272)):
        pytest.fail("it started")


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_a_broken_model_is_raised_as_it_is(placement: Placement) -> None:
    with pytest.raises(ModelError, match=r"^model\.gguf: blk\.0\.attn_q\.weight: truncated$"):
        await fails_to_start(config(placement, executor="integer_stage:Raises"))


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_a_bug_while_loading_names_actor_and_exception(placement: Placement) -> None:
    text = "^worker did not start: ZeroDivisionError: weights by zero"
    with pytest.raises(EngineBroken, match=text):
        await fails_to_start(config(placement, executor="integer_stage:Crashes"))


@pytest.mark.parametrize("placement", PLACEMENTS[1:])
async def test_an_exit_while_loading_names_status_and_last_words(placement: Placement) -> None:
    with pytest.raises(EngineBroken, match="exited with status 3") as broken:
        await fails_to_start(config(placement, executor="integer_stage:Exits"))
    assert "cannot allocate memory" in str(broken.value)


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_a_device_that_never_answers_fails_the_start_in_time(placement: Placement) -> None:
    try:
        with anyio.fail_after(60):
            with pytest.raises(EngineBroken, match=r"not ready within 0\.5 s"):
                await fails_to_start(
                    config(placement, executor="integer_stage:Sleeps", start_timeout=0.5)
                )
    finally:
        Sleeps.released.set()
    Sleeps.released.clear()


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_an_executor_that_is_not_there_is_refused_in_every_placement(
    placement: Placement,
) -> None:
    with pytest.raises(
        ConfigError, match=r"worker\.executor: cannot import 'integer_stage:Nothing'"
    ):
        await fails_to_start(config(placement, executor="integer_stage:Nothing"))


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        ("nothing_at_all:Executor", "cannot import 'nothing_at_all:Executor'"),
        (
            "integer_stage:ASKED",
            "worker.executor: expected a subclass of Executor, got 'integer_stage:ASKED'",
        ),
        ("torch.nn", "expected auto, native, torch, triton or module:Class, got 'torch.nn'"),
    ],
)
async def test_what_is_no_executor_is_refused(executor: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await fails_to_start(config("inline", executor=executor))


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_a_wrong_option_of_another_actor_is_refused(placement: Placement) -> None:
    base = config(placement)
    wrong = EngineConfig(
        placement=placement, worker=base.worker, scheduler=SchedulerConfig(depth=0)
    )
    with pytest.raises(ConfigError, match="depth"):
        await fails_to_start(wrong)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ({"restarts": -1}, "restarts: expected >= 0, got -1"),
        ({"restart_window": 0.0}, "restart_window: expected > 0 seconds"),
        ({"stop_timeout": -1.0}, "stop_timeout: expected >= 0 seconds"),
        ({"start_timeout": 0.0}, "start_timeout: expected > 0 seconds, got 0"),
        (
            {"hang_timeout": 1.0},
            "hang_timeout: expected more than the 1 s between two beats, got 1",
        ),
        ({"groups": ("worker+cook",)}, "got 'cook' in 'worker\\+cook'"),
    ],
)
async def test_a_wrong_option_of_the_engine_is_refused_before_anything_starts(
    rest: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        await fails_to_start(config("processes", **rest))


async def test_a_hang_timeout_where_nobody_is_watched_is_refused() -> None:
    with pytest.raises(ConfigError, match="hang_timeout: 9 s and placement 'inline' contradict"):
        await fails_to_start(config("inline", hang_timeout=9.0))


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_progress_is_reported(placement: Placement) -> None:
    told: list[Progress] = []
    async with bring_up(config(placement), ByteTokenizer(272), report=told.append):
        assert [(p.actor, p.what, p.done, p.total) for p in told] == [("worker", "integers", 1, 1)]


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_cancelled_while_it_starts_nothing_is_left(placement: Placement) -> None:
    told: list[Progress] = []
    sleeping = config(placement, executor="integer_stage:Sleeps")
    try:
        async with anyio.create_task_group() as group:

            async def start() -> None:
                async with bring_up(sleeping, ByteTokenizer(272), report=told.append):
                    pytest.fail("it started")

            group.start_soon(start)
            await until(lambda: told)
            group.cancel_scope.cancel()
    finally:
        Sleeps.released.set()
    if placement == "inline":
        await until(lambda: Sleeps.made and Sleeps.made[-1].closed)
    Sleeps.released.clear()


async def test_an_exception_of_the_body_comes_out_as_it_is() -> None:
    group = ExceptionGroup("mine", [KeyError("one")])
    for error in (LookupError("mine"), group):
        with pytest.raises(type(error)) as raised:
            async with bring_up(config("embedded"), ByteTokenizer(272)):
                raise error
        assert raised.value is error


async def test_a_second_start_after_a_failed_one_works(run_root: Path) -> None:
    with pytest.raises(ModelError):
        await fails_to_start(config("processes", executor="integer_stage:Raises"))
    assert list(run_root.iterdir()) == []
    async with bring_up(config("processes"), ByteTokenizer(272)) as troupe:
        pids = list(troupe.pids.values())
        await right_answers(troupe)
    assert all(gone(pid) for pid in pids)
