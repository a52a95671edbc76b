"""Actors die while requests stream: nothing is lost, doubled or retracted."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
from integer_stage import Audience, config, gone, right_answers
from waiting import until

from optimist.actors.config import EngineConfig, GatewayConfig, Placement
from optimist.messages.errors import EngineBroken
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.testing.following import Asked
from optimist.troupe import Troupe, bring_up

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"]),
]

CELLS = ("worker", "builder", "scheduler")
ENGINE_ROOM = "worker+builder+scheduler"


def busy(placement: Placement, **rest: Any) -> EngineConfig:
    """One whose requests are never far ahead of their readers: nobody has all of it while this loop stands."""
    return config(placement, sleep_ms=2.0, gateway=GatewayConfig(credit=4), **rest)


async def kill(troupe: Troupe, cell: str, how: signal.Signals = signal.SIGKILL) -> None:
    """Kill a cell's process and wait until it is gone for its supervisor too."""
    pid = troupe.pids[cell]
    os.kill(pid, how)
    await until(lambda: troupe.pids.get(cell) != pid)
    assert gone(pid)


@pytest.mark.parametrize("cell", CELLS)
async def test_killed_while_busy_every_stream_continues(cell: str) -> None:
    async with bring_up(busy("processes"), ByteTokenizer(272)) as troupe:
        audience = Audience(troupe.gateway)
        async with anyio.create_task_group() as group:
            group.start_soon(audience.follow)
            await until(lambda: audience.delivered >= 20)
            await kill(troupe, cell)
        assert troupe.restarts == 1


async def test_killed_while_idle_the_next_requests_are_served() -> None:
    async with bring_up(config("processes", restarts=10), ByteTokenizer(272)) as troupe:
        for cell in CELLS:
            await kill(troupe, cell)
            await right_answers(troupe)
            await kill(troupe, cell, signal.SIGTERM)
            await right_answers(troupe)
        assert troupe.restarts == 6


async def test_killed_one_after_the_other_and_two_at_once_every_stream_continues() -> None:
    placement = busy("processes", restarts=10)
    async with bring_up(placement, ByteTokenizer(272)) as troupe:
        audience = Audience(troupe.gateway)
        async with anyio.create_task_group() as group:
            group.start_soon(audience.follow)
            await until(lambda: audience.delivered >= 10)
            await kill(troupe, "builder")
            await kill(troupe, "scheduler")
            await until(lambda: audience.delivered >= 30)
            await until(lambda: len(troupe.pids) == 3)
            async with anyio.create_task_group() as both:
                both.start_soon(kill, troupe, "worker")
                both.start_soon(kill, troupe, "scheduler")
        assert troupe.restarts == 4


async def test_the_process_of_embedded_killed_while_busy_every_stream_continues() -> None:
    async with bring_up(busy("embedded"), ByteTokenizer(272)) as troupe:
        audience = Audience(troupe.gateway)
        async with anyio.create_task_group() as group:
            group.start_soon(audience.follow)
            await until(lambda: audience.delivered >= 20)
            await kill(troupe, ENGINE_ROOM)
        assert troupe.restarts == 1


@pytest.mark.parametrize("placement", ["inline", "embedded", "processes"])
async def test_a_worker_that_raises_is_replaced_and_every_stream_continues(
    placement: Placement, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    left.write_text("once")
    options = {"how": "raise", "step": 5, "left": str(left)}
    failing = config(placement, executor="integer_stage:Fails", options=options)
    async with bring_up(failing, ByteTokenizer(272)) as troupe:
        await right_answers(troupe)
        assert troupe.restarts == 1


async def test_health_is_red_while_an_actor_is_lost_and_green_again_afterwards() -> None:
    async with bring_up(config("processes"), ByteTokenizer(272)) as troupe:
        gateway = troupe.gateway
        assert gateway is not None
        await right_answers(troupe)
        assert gateway.health().healthy
        os.kill(troupe.pids["builder"], signal.SIGKILL)
        await until(lambda: not gateway.health().healthy)
        assert "SIGKILL" in gateway.health().reason
        await until(lambda: gateway.health().healthy)


async def test_past_the_budget_every_open_request_ends_naming_actor_status_and_last_words(
    tmp_path: Path,
) -> None:
    left = tmp_path / "left"
    left.write_text("\n".join("many"))
    options = {"how": "exit", "step": 3, "left": str(left)}
    failing = config("processes", executor="integer_stage:Fails", options=options, restarts=0)
    errors: list[str] = []

    async with bring_up(failing, ByteTokenizer(272)) as troupe:

        async def ask(one: Asked) -> None:
            with pytest.raises(EngineBroken) as broken:
                await Audience(troupe.gateway, [one]).followers[0].follow()
            errors.append(str(broken.value))

        async with anyio.create_task_group() as group:
            for seed in range(4):
                group.start_soon(ask, Asked(prompt_ids=(1, 2, 3), seed=seed))
        for error in errors:
            assert "worker" in error and "exited with status 9" in error
            assert "the device fell off the bus" in error
        with anyio.fail_after(60):
            with pytest.raises(EngineBroken, match="exited with status 9"):
                await troupe.wait_ended()
        assert troupe.pids == {}
        assert troupe.gateway is not None and not troupe.gateway.health().healthy
        with pytest.raises(EngineBroken):
            await Audience(troupe.gateway).followers[0].follow()


@pytest.mark.parametrize("placement", ["embedded", "processes"])
async def test_a_device_that_hangs_while_the_loop_turns_is_killed_and_every_stream_continues(
    placement: Placement, tmp_path: Path, quick_cells: str
) -> None:
    left = tmp_path / "left"
    left.write_text("once")
    options = {"how": "hang", "step": 5, "left": str(left)}
    hanging = config(placement, executor="integer_stage:Fails", options=options, hang_timeout=1.5)
    async with bring_up(hanging, ByteTokenizer(272), module=quick_cells) as troupe:
        await right_answers(troupe)
        assert troupe.restarts == 1


async def test_a_worker_that_hangs_is_killed_and_every_stream_continues(quick_cells: str) -> None:
    placement = busy("processes", hang_timeout=1.5)
    async with bring_up(placement, ByteTokenizer(272), module=quick_cells) as troupe:
        audience = Audience(troupe.gateway)
        async with anyio.create_task_group() as group:
            group.start_soon(audience.follow)
            await until(lambda: audience.delivered >= 20)
            os.kill(troupe.pids["worker"], signal.SIGSTOP)
        assert troupe.restarts == 1
