"""A thread that has its next piece of work before the loop knows of the last."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from optimist.actors.worker.own_thread import OwnThread

pytestmark = pytest.mark.anyio


class Bench:
    """What a thread made, taken as it is told of."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.begun: list[int] = []
        self.told = anyio.Event()
        self.tellings = 0
        self.left: list[int] = []

    def tell(self) -> None:
        self.tellings += 1
        self.told.set()

    def leave(self) -> bool:
        self.left.append(len(self.begun))
        return True

    def work(self, number: int) -> int:
        self.begun.append(number)
        self.open.wait()
        if number < 0:
            raise ValueError(str(number))
        return 10 * number

    @asynccontextmanager
    async def thread(self) -> AsyncIterator[OwnThread[int, int]]:
        thread = OwnThread(self.work, self.tell, "bench", leave=self.leave)
        try:
            yield thread
        finally:
            self.open.set()
            await thread.stop()

    async def next(self, thread: OwnThread[int, int]) -> int:
        while (made := thread.take()) is None:
            await self.told.wait()
            self.told = anyio.Event()
        return made


async def test_results_come_in_order() -> None:
    bench = Bench()
    async with bench.thread() as thread:
        for number in range(1, 5):
            thread.put(number)
        bench.open.set()
        assert [await bench.next(thread) for _ in range(4)] == [10, 20, 30, 40]


async def test_the_next_piece_begins_without_a_turn_of_the_loop() -> None:
    bench = Bench()
    async with bench.thread() as thread:
        thread.put(1)
        thread.put(2)
        bench.open.set()
        while bench.begun != [1, 2]:
            pass
        assert await bench.next(thread) == 10


async def test_a_result_is_left_to_the_next_piece_where_that_is_at_hand() -> None:
    bench = Bench()
    async with bench.thread() as thread:
        for number in (1, 2, 3):
            thread.put(number)
        bench.open.set()
        assert [await bench.next(thread) for _ in range(3)] == [10, 20, 30]
        assert bench.left == [1, 2]
        thread.put(4)
        assert await bench.next(thread) == 40
        assert (bench.left, bench.tellings) == ([1, 2], 2)


async def test_a_piece_that_raises_tells_of_what_was_left_to_it() -> None:
    bench = Bench()
    async with bench.thread() as thread:
        for number in (1, -1, 2):
            thread.put(number)
        bench.open.set()
        assert await bench.next(thread) == 10
        with pytest.raises(ValueError, match="-1"):
            await bench.next(thread)
        assert (bench.left, bench.tellings) == ([1], 1)


async def test_what_the_work_raises_comes_out_and_nothing_is_done_after_it() -> None:
    bench = Bench()
    async with bench.thread() as thread:
        for number in (1, -1, 2):
            thread.put(number)
        bench.open.set()
        assert await bench.next(thread) == 10
        with pytest.raises(ValueError, match="-1"):
            await bench.next(thread)
    assert bench.begun == [1, -1]


async def test_stopping_finishes_what_has_begun_and_leaves_the_rest() -> None:
    bench = Bench()
    async with bench.thread() as thread:
        thread.put(1)
        thread.put(2)
        while not bench.begun:
            pass
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(thread.stop)
            await anyio.wait_all_tasks_blocked()
            bench.open.set()
        assert thread.take() == 10
    assert bench.begun == [1]
