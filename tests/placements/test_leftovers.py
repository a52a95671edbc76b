"""Nothing is left of an engine: no process, task, descriptor, directory or shared memory."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Iterator

import anyio
import pytest
from integer_stage import Audience, config, gone, right_answers
from waiting import until

from optimist.actors.config import Placement
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.testing.drain import drained
from optimist.testing.following import Asked
from optimist.troupe import Troupe, bring_up

PLACEMENTS: tuple[Placement, ...] = ("inline", "embedded", "processes")
LONG = [Asked(prompt_ids=(1, 2, 3), max_tokens=200, seed=seed) for seed in range(4)]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def nothing_is_left_at_once() -> Iterator[None]:
    with drained(patience_s=0.0):
        yield


@pytest.mark.anyio
@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_many_cycles_leave_no_descriptor_and_no_thread(
    placement: Placement, anyio_backend: tuple[str, dict[str, bool]]
) -> None:
    plain = anyio_backend == ("asyncio", {"use_uvloop": False})
    cycles = (10 if placement == "inline" else 5) if plain else 2

    async def cycle() -> None:
        async with bring_up(config(placement), ByteTokenizer(272)) as troupe:
            await right_answers(troupe, [Asked(prompt_ids=(5,), max_tokens=3)])

    await cycle()
    gc.collect()
    before = descriptors(), threading.active_count()
    for _ in range(cycles):
        await cycle()
    gc.collect()
    assert descriptors() <= before[0]
    assert threading.active_count() <= before[1]


@pytest.mark.anyio
@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_cancelled_while_requests_stream(placement: Placement) -> None:
    async with anyio.create_task_group() as group:
        audience: list[Audience] = []

        async def serve() -> None:
            async with bring_up(config(placement, sleep_ms=2.0), ByteTokenizer(272)) as troupe:
                audience.append(Audience(troupe.gateway, LONG))
                await audience[0].follow()

        group.start_soon(serve)
        await until(lambda: audience and audience[0].delivered > 10)
        group.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_cancelled_while_it_stops(placement: Placement) -> None:
    pids: list[int] = []
    with anyio.CancelScope() as scope:
        async with bring_up(config(placement), ByteTokenizer(272)) as troupe:
            await right_answers(troupe)
            pids += troupe.pids.values()
            scope.cancel()
    assert all(gone(pid) for pid in pids)


@pytest.mark.anyio
async def test_cancelled_while_it_waits_for_a_child_that_does_not_stop() -> None:
    pids: list[int] = []
    with anyio.CancelScope() as scope:
        async with bring_up(config("processes", stop_timeout=0.5), ByteTokenizer(272)) as troupe:
            pids += troupe.pids.values()
            os.kill(troupe.pids["scheduler"], signal.SIGSTOP)
            scope.deadline = anyio.current_time() + 0.1
    assert all(gone(pid) for pid in pids)


@pytest.mark.anyio
async def test_a_child_that_does_not_stop_is_killed_after_its_limit() -> None:
    async with bring_up(config("processes", stop_timeout=0.2), ByteTokenizer(272)) as troupe:
        pids = list(troupe.pids.values())
        os.kill(troupe.pids["scheduler"], signal.SIGSTOP)
    assert all(gone(pid) for pid in pids)


@pytest.mark.anyio
async def test_closed_in_the_middle_of_a_restart() -> None:
    async with bring_up(config("processes"), ByteTokenizer(272)) as troupe:
        os.kill(troupe.pids["worker"], signal.SIGKILL)
        await until(lambda: troupe.restarts == 1)


@pytest.mark.anyio
async def test_three_troupes_at_once_know_nothing_of_each_other() -> None:
    async def one(placement: Placement) -> None:
        async with bring_up(config(placement, sleep_ms=1.0), ByteTokenizer(272)) as troupe:
            await right_answers(troupe)

    async with anyio.create_task_group() as group:
        for placement in ("inline", "embedded", "processes"):
            group.start_soon(one, placement)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_asyncio_run_twice_in_one_process(placement: Placement) -> None:
    async def one() -> None:
        async with bring_up(config(placement), ByteTokenizer(272)) as troupe:
            await right_answers(troupe)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(one())
    asyncio.run(one())


def test_asyncio_run_ends_while_the_engine_is_open() -> None:
    """The loop's end cancels the task that holds it open."""
    troupes: list[Troupe] = []

    async def hold() -> None:
        async with bring_up(config("processes"), ByteTokenizer(272)) as troupe:
            troupes.append(troupe)
            await anyio.sleep_forever()

    async def main() -> None:
        task = asyncio.ensure_future(hold())
        await until(lambda: troupes)
        assert not task.done()

    asyncio.run(main())
    assert troupes[0].pids == {}


def test_in_a_thread_that_is_not_the_main_one() -> None:
    async def one() -> None:
        async with bring_up(config("processes"), ByteTokenizer(272)) as troupe:
            await right_answers(troupe)

    failures: list[Exception] = []

    def run() -> None:
        try:
            asyncio.run(one())
        except Exception as error:  # noqa: BLE001 - the test's thread looks at it
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert failures == []
