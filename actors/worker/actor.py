"""The worker: runs batches on its device in order and sends results as they become readable."""

from __future__ import annotations

import time
from collections import deque
from typing import ClassVar, Generic, NamedTuple, TypeVar

import anyio
import anyio.to_thread

from optimist.actors.base import Actor
from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Outcome, Ticket
from optimist.actors.worker.core import StepOrder, Verdict, step_result
from optimist.messages.base import ActorMessage
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.control import Resync
from optimist.messages.results import Capacity, StepResult
from optimist.transport.base import Inbox, Ref

T = TypeVar("T")


class Worker(Actor[Batch | Resync]):
    """Owns the device. An exception of the executor ends it: the supervisor starts another.

    With a loop: `run`. Without: `accept` a batch, wait for its ticket, send its `result`.
    """

    name: ClassVar[str] = "worker"
    accepts: ClassVar[tuple[type[ActorMessage], ...]] = (ExactBatch, OptimisticBatch, Resync)
    emits: ClassVar[tuple[tuple[str, type[ActorMessage]], ...]] = (
        ("scheduler", StepResult),
        ("scheduler", Capacity),
        ("scheduler", Resync),
    )

    def __init__(
        self,
        config: WorkerConfig,
        incarnation: int,
        *,
        scheduler: Ref[StepResult | Capacity | Resync],
        executor: Executor,
    ) -> None:
        super().__init__(incarnation)
        self.config = config
        self.order = StepOrder(incarnation)
        self.ignored = 0
        """messages of a kind that it does not take"""
        self._scheduler = scheduler
        self._executor = executor
        self._batches: _Handover[Batch] = _Handover()
        self._running: _Handover[_Running] = _Handover()
        self._idle_since = 0.0

    def started(self) -> None:
        self._scheduler.send(Capacity(incarnation=self.incarnation, **self._limits()))

    def receive(self, message: Batch | Resync) -> None:
        match message:
            case Resync():
                self.started()
            case ExactBatch() | OptimisticBatch():
                if self._may_run(message):
                    self._batches.put(message)
            case _:
                self.ignored += 1

    def accept(self, batch: Batch) -> Ticket | None:
        """Submit a batch whose turn it is; None for any other. Raises what the executor raises."""
        return self._submit(batch).ticket if self._may_run(batch) else None

    def result(self, batch: Batch, outcome: Outcome, step_us: int = 0) -> StepResult:
        """The message that carries an outcome."""
        return step_result(self.incarnation, batch, outcome, step_us)

    async def run(self, inbox: Inbox[Batch | Resync]) -> None:
        """Listen on the loop, compute in one thread, and close the executor when the inbox ends.

        A device that is still busy when `submit` returns is waited for in a second thread, so that
        the next batch reaches it meanwhile.
        """
        try:
            async with anyio.create_task_group() as tasks:
                if self._executor.asynchronous:
                    tasks.start_soon(self._enqueue)
                    tasks.start_soon(self._read)
                else:
                    tasks.start_soon(self._compute)
                await super().run(inbox)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise _only(group) from None
        finally:
            self._executor.close()

    def _limits(self) -> dict[str, int]:
        return self._executor.limits._asdict()

    def _may_run(self, batch: Batch) -> bool:
        verdict = self.order.judge(batch.epoch, batch.step)
        if verdict is Verdict.ASK:
            self._scheduler.send(
                Resync(
                    incarnation=self.incarnation,
                    actor=self.name,
                    epoch=batch.epoch,
                    step=self.order.step,
                )
            )
        return verdict is Verdict.RUN

    async def _compute(self) -> None:
        limiter = anyio.CapacityLimiter(1)
        while True:
            batch = await self._batches.take()
            self._scheduler.send(await anyio.to_thread.run_sync(self._step, batch, limiter=limiter))

    async def _enqueue(self) -> None:
        limiter = anyio.CapacityLimiter(1)
        while True:
            batch = await self._batches.take()
            self._running.put(await anyio.to_thread.run_sync(self._submit, batch, limiter=limiter))

    async def _read(self) -> None:
        limiter = anyio.CapacityLimiter(1)
        while True:
            running = await self._running.take()
            self._scheduler.send(
                await anyio.to_thread.run_sync(self._finish, running, limiter=limiter)
            )

    def _step(self, batch: Batch) -> StepResult:
        return self._finish(self._submit(batch))

    def _submit(self, batch: Batch) -> _Running:
        submitted = time.perf_counter()
        if batch.step == 0:
            self._executor.reset()
        return _Running(batch, self._executor.submit(batch), submitted)

    def _finish(self, running: _Running) -> StepResult:
        outcome = running.ticket.wait()
        begun, self._idle_since = max(running.submitted, self._idle_since), time.perf_counter()
        return self.result(running.batch, outcome, int(1e6 * (self._idle_since - begun)))


class _Running(NamedTuple):
    """A step on the device. submitted: seconds of the performance counter."""

    batch: Batch
    ticket: Ticket
    submitted: float


class _Handover(Generic[T]):
    """What one task leaves for another, in order. As long as the credit of those who send."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._wake: anyio.Event | None = None

    def put(self, item: T) -> None:
        self._items.append(item)
        if self._wake is not None:
            self._wake.set()

    async def take(self) -> T:
        while not self._items:
            self._wake = anyio.Event()
            await self._wake.wait()
        return self._items.popleft()


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The exception inside, where there is one: a fault should be named by its cause."""
    while isinstance(group, BaseExceptionGroup) and len(group.exceptions) == 1:
        inner = group.exceptions[0]
        if not isinstance(inner, BaseExceptionGroup):
            return inner
        group = inner
    return group
