"""The worker's shell: order, results as they become readable, and its end."""

from __future__ import annotations

import threading
from typing import Any, Self

import anyio
import pytest
from waiting import until

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.actor import Worker
from optimist.actors.worker.base import (
    Executor,
    Limits,
    Outcome,
    Prepared,
    Progress,
    RowDrafts,
    Ticket,
)
from optimist.actors.worker.core import Times
from optimist.messages.base import ints
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.control import Resync
from optimist.messages.results import Capacity, StepResult
from optimist.messages.slots import BlockDelta
from optimist.testing.outcomes import Sampled, outcome_of
from optimist.transport.mailbox import Mailbox

pytestmark = pytest.mark.anyio

Sent = StepResult | Capacity | Resync
LIMITS = Limits(
    num_blocks=8, block_size=4, max_slots=2, max_model_len=32, max_batch_tokens=16, vocab_size=97
)


class Scripted(Executor):
    """Each step samples its own number."""

    def __init__(self, *, fail_at: int | None = None) -> None:
        self.limits = LIMITS
        self.calls: list[str] = []
        self._fail_at = fail_at

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        return cls()

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> Ticket:
        self.calls.append(f"submit {batch.step}")
        if batch.step == self._fail_at:
            raise RuntimeError(f"no step {batch.step}")
        return ScriptedTicket(self, batch.step)

    def wait_for(self, step: int) -> Outcome:
        self.calls.append(f"wait {step}")
        return outcome_of([Sampled(0, 0, 0, [step], 0, [None])])

    def reset(self) -> None:
        self.calls.append("reset")

    def close(self) -> None:
        self.calls.append("close")


class Late(Scripted):
    """Shows the tokens of as many steps as it is told to."""

    asynchronous = True

    def __init__(self, *, fail_at: int | None = None) -> None:
        super().__init__(fail_at=fail_at)
        self.shown = threading.Semaphore(0)

    def wait_for(self, step: int) -> Outcome:
        self.shown.acquire()
        return super().wait_for(step)


class ScriptedTicket:
    def __init__(self, executor: Scripted, step: int) -> None:
        self._executor = executor
        self._step = step

    def wait(self) -> Outcome:
        return self._executor.wait_for(self._step)


class Harness:
    """A worker between two mailboxes."""

    def __init__(self, executor: Executor, incarnation: int = 3) -> None:
        self.inbox: Mailbox[Any] = Mailbox((ExactBatch, OptimisticBatch, Resync))
        self.scheduler: Mailbox[Sent] = Mailbox((StepResult, Capacity, Resync))
        self.worker = Worker(
            WorkerConfig(), incarnation, scheduler=self.scheduler.ref(), executor=executor
        )

    async def next(self) -> Sent:
        await self.scheduler.wait()
        message = self.scheduler.receive_nowait()
        assert message is not None
        return message

    async def steps(self, count: int) -> list[int]:
        messages = [await self.next() for _ in range(count)]
        return [m.step for m in messages if isinstance(m, StepResult)]


def batch(step: int, epoch: int = 3) -> ExactBatch:
    return ExactBatch(
        incarnation=2,
        epoch=epoch,
        step=step,
        blocks=BlockDelta(version=step + 1),
        query_start_loc=bytes(4),
    )


async def test_capacity_is_sent_at_the_start_and_when_asked_for() -> None:
    harness = Harness(Scripted())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.worker.run, harness.inbox)
        first = await harness.next()
        harness.inbox.ref().send(Resync(incarnation=1, actor="scheduler"))
        assert await harness.next() == first
        assert first == Capacity(incarnation=3, **LIMITS._asdict())
        harness.inbox.close()


async def test_batches_run_in_order_and_the_device_is_closed_at_the_end() -> None:
    executor = Scripted()
    harness = Harness(executor)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.worker.run, harness.inbox)
        for step in range(3):
            harness.inbox.ref().send(batch(step))
        assert await harness.steps(4) == [0, 1, 2]
        harness.inbox.close()
    waits = [call for call in executor.calls if "wait" in call]
    assert waits == ["wait 0", "wait 1", "wait 2"]
    assert [call for call in executor.calls if call not in waits] == [
        "reset", "submit 0", "submit 1", "submit 2", "close",
    ]  # fmt: skip


class Held(Scripted):
    """Computes no step before it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Semaphore(0)

    def prepare(self, batch: Batch, drafts: RowDrafts | None = None) -> Prepared:
        self.calls.append(f"prepare {batch.step}")
        return super().prepare(batch, drafts)

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> Ticket:
        self.let.acquire()
        return super().submit(batch, drafts)


async def test_the_next_batch_is_prepared_while_one_is_computed() -> None:
    executor = Held()
    harness = Harness(executor)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.worker.run, harness.inbox)
        harness.inbox.ref().send(batch(0))
        harness.inbox.ref().send(batch(1))
        await until(lambda: "prepare 1" in executor.calls)
        assert "submit 0" not in executor.calls
        executor.let.release(2)
        assert await harness.steps(3) == [0, 1]
        harness.inbox.close()


async def test_a_result_names_its_step_and_carries_its_tokens() -> None:
    harness = Harness(Scripted())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.worker.run, harness.inbox)
        harness.inbox.ref().send(batch(0))
        harness.inbox.ref().send(batch(1))
        await harness.steps(2)
        result = await harness.next()
        assert isinstance(result, StepResult)
        assert (result.incarnation, result.epoch, result.step) == (3, 3, 1)
        assert ints(result.token_ids).tolist() == [1]
        assert result.step_us >= 0
        harness.inbox.close()


async def test_the_next_batch_is_submitted_while_the_device_is_still_busy() -> None:
    executor = Late()
    harness = Harness(executor)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.worker.run, harness.inbox)
        harness.inbox.ref().send(batch(0))
        harness.inbox.ref().send(batch(1))
        await until(lambda: "submit 1" in executor.calls)
        assert executor.calls == ["reset", "submit 0", "submit 1"]
        executor.shown.release(2)
        assert await harness.steps(3) == [0, 1]
        harness.inbox.close()


async def test_a_gap_is_asked_for_once_and_its_batch_runs_when_it_comes() -> None:
    executor = Scripted()
    harness = Harness(executor)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.worker.run, harness.inbox)
        await harness.next()
        for step in (0, 2, 3, 1):
            harness.inbox.ref().send(batch(step))
        messages = [await harness.next() for _ in range(3)]
        asked = [m for m in messages if isinstance(m, Resync)]
        assert asked == [Resync(incarnation=3, actor="worker", epoch=3, step=1)]
        assert [m.step for m in messages if isinstance(m, StepResult)] == [0, 1]
        harness.inbox.close()


async def test_a_new_epoch_resets_the_device_before_its_first_step() -> None:
    executor = Scripted()
    harness = Harness(executor)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.worker.run, harness.inbox)
        for epoch, step in ((3, 0), (5, 0), (3, 1), (5, 1)):
            harness.inbox.ref().send(batch(step, epoch))
        await harness.steps(4)
        harness.inbox.close()
    assert [call for call in executor.calls if "wait" not in call] == [
        "reset", "submit 0", "reset", "submit 0", "submit 1", "close",
    ]  # fmt: skip


@pytest.mark.parametrize("device", [Scripted, Late])
async def test_an_exception_of_the_executor_ends_the_worker_by_its_own_name(
    device: type[Scripted],
) -> None:
    executor = device(fail_at=1)
    if isinstance(executor, Late):
        executor.shown.release()
    harness = Harness(executor)
    harness.inbox.ref().send(batch(0))
    harness.inbox.ref().send(batch(1))
    with anyio.fail_after(10), pytest.raises(RuntimeError, match="no step 1"):
        await harness.worker.run(harness.inbox)
    assert executor.calls[-1] == "close"


async def test_cancelling_waits_for_the_device_and_closes_it() -> None:
    executor = Late()
    harness = Harness(executor)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.worker.run, harness.inbox)
        harness.inbox.ref().send(batch(0))
        await until(lambda: "submit 0" in executor.calls)
        tasks.cancel_scope.cancel()
        executor.shown.release()
    assert executor.calls[-1] == "close"


def test_a_message_of_another_kind_is_counted() -> None:
    worker = Harness(Scripted()).worker
    worker.receive(Capacity(incarnation=1, **LIMITS._asdict()))  # type: ignore[arg-type]
    assert worker.ignored == 1


def test_without_a_loop_a_batch_is_due_when_it_is_its_turn() -> None:
    harness = Harness(Scripted())
    worker = harness.worker
    worker.receive(batch(1))
    assert worker.desk.due() is None
    worker.receive(batch(0))
    due = worker.desk.due()
    assert due is not None and due.drafts is None and worker.desk.due() is None
    running = worker.submit(due)
    worker.desk.tell(running.batch, running.ticket.wait(), Times(7))
    resync, result = (harness.scheduler.receive_nowait() for _ in range(2))
    assert isinstance(resync, Resync) and isinstance(result, StepResult)
    assert (result.step, result.step_us, result.drafts_held) == (0, 7, b"")
