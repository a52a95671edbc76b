"""The worker: runs batches on its device in order and sends results as they become readable."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, ClassVar

import anyio
from anyio.abc import TaskGroup

from optimist.actors import slices
from optimist.actors.base import Actor
from optimist.actors.config import DRAFT_WAIT, WorkerConfig
from optimist.actors.worker.base import Executor
from optimist.actors.worker.core import StepOrder, Verdict
from optimist.actors.worker.desk import Desk, Due
from optimist.actors.worker.device_clock import DeviceClock
from optimist.actors.worker.late_drafts import Lack
from optimist.actors.worker.own_thread import OwnThread
from optimist.actors.worker.patience import Patience
from optimist.actors.worker.pulse import Pulse
from optimist.actors.worker.stages import Computed, Done, Ready, Running
from optimist.messages.base import ActorMessage
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.control import Fault, Restarted, Resync, SyncCheck
from optimist.messages.drafting import Accepted, Drafts
from optimist.messages.results import Capacity, StepResult
from optimist.transport.base import Inbox, Ref
from optimist.transport.bell import Bell
from optimist.transport.waker import Waker

WorkerMessage = Batch | Drafts | Resync | Fault | Restarted | SyncCheck


class Worker(Actor[WorkerMessage]):
    """Owns the device. An exception of the executor ends it: the supervisor starts another.

    With a loop: `run`. Without: `receive` messages; while something is `due`, `submit` it; wait for its
    ticket and `tell` the outcome; `report` what waited for drafts.
    """

    name: ClassVar[str] = "worker"
    accepts: ClassVar[tuple[type[ActorMessage], ...]] = (
        ExactBatch,
        OptimisticBatch,
        Drafts,
        Resync,
        Fault,
        Restarted,
        SyncCheck,
    )
    emits: ClassVar[tuple[tuple[str, type[ActorMessage]], ...]] = (
        ("scheduler", StepResult),
        ("scheduler", Capacity),
        ("scheduler", Resync),
        ("proposer", Accepted),
        ("proposer", Capacity),
    )

    def __init__(
        self,
        config: WorkerConfig,
        incarnation: int,
        *,
        scheduler: Ref[StepResult | Capacity | Resync],
        executor: Executor,
        proposer: Ref[Accepted | Capacity] | None = None,
    ) -> None:
        """proposer: who drafts on the host; None when nobody does."""
        super().__init__(incarnation)
        self.config = config
        self.order = StepOrder(incarnation)
        self.desk = Desk(incarnation, executor.limits, scheduler, proposer)
        self.ignored = 0
        """messages of a kind that it does not take"""
        self._scheduler = scheduler
        self._executor = executor
        self._news = Pulse()
        """a message came, or a result was told that a batch may have waited for"""
        self._steps = Waker()
        """a step is on the device, or has ended"""
        self._clock = DeviceClock()
        self._asked: float | None = None
        """when drafts were asked for that the next batch needs: on one loop they may come before it goes on"""
        share = config.draft_wait
        self._patience = Patience(DRAFT_WAIT if share is None else share)
        self._thread: OwnThread[Ready, Any] | None = None
        # With drafts to come, batches wait for them, and results too.
        self.eager = () if proposer else (ExactBatch, OptimisticBatch)

    @property
    def busy_since(self) -> float | None:
        """See Actor: a step that does not end is a device that hangs, whatever its thread is doing."""
        return self._clock.busy_since

    def started(self) -> None:
        self._say_capacity()
        self.desk.greet()

    def receive(self, message: WorkerMessage) -> None:
        match message:
            case Resync(actor="proposer") | Restarted(actor="proposer"):
                self.desk.greet()
            case Fault(actor="proposer"):
                self.desk.bury()
            case Resync():
                self._say_capacity()
            case SyncCheck():
                self._executor.check_syncs(message.mode)
            case Drafts():
                self.desk.take(message)
            case ExactBatch() | OptimisticBatch():
                if self._may_run(message):
                    self._clock.came()
                    self.desk.put(message)
                    self._hand_on()
            case _:
                self.ignored += 1
        self._news.beat()

    def submit(self, due: Due) -> Running:
        """Enqueue a batch on the device. Raises what the executor raises."""
        running = Running(due.batch, self._executor.prepare(due.batch, due.drafts)())
        self.desk.went()
        return running

    async def run(self, inbox: Inbox[WorkerMessage]) -> None:
        """Listen on the loop, compute in a thread, and close the executor when the inbox ends.

        A device that is still busy when `submit` returns is waited for in a second thread, so that
        the next batch reaches it meanwhile.
        """
        work = self._enqueue_and_read if self._executor.asynchronous else self._compute
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(work)
                await super().run(inbox)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise _only(group) from None
        finally:
            self._executor.close()

    def _say_capacity(self) -> None:
        limits = self._executor.limits._asdict()
        self._scheduler.send(Capacity(incarnation=self.incarnation, **limits))

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
        """Give a thread of its own the next batch while it computes one, unless that has drafts to come.

        What needs no device is done here, beside the step before and the one behind. A step that has ended is
        told of by the one behind it: before that is under way, the loop would take the core it begins on.
        """
        bell = Bell(self._steps.wake)
        leave = partial(self._executor.announce, bell.fd)
        thread = OwnThread(self._step, self._steps.wake, "compute", slices.usual, leave)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(bell.listen)
                self._give_to(thread, tasks)
                while True:
                    while (done := thread.take()) is None:
                        await self._steps.park()
                    outcome, times = done.ticket.wait(), self._clock.end(done.at)
                    await self._tell(Done(done.batch, outcome, times))
        finally:
            await thread.stop()
            bell.close()

    def _give_to(self, thread: OwnThread[Ready, Any], tasks: TaskGroup) -> None:
        """Let a thread have batches, those that are there and those that come."""
        self._thread = thread
        if self.desk.late is None:
            self._hand_on()
        else:
            tasks.start_soon(self._give, thread)

    def _hand_on(self) -> None:
        """Where no batch waits for drafts, each is given in the turn in which it comes."""
        if self._thread is None or self.desk.late is not None:
            return
        while (due := self.desk.due()) is not None:
            self._clock.begin()
            self._thread.put(self._ready(due))

    async def _give(self, thread: OwnThread[Ready, Any]) -> None:
        while True:
            thread.put(self._ready(await self._due()))
            self.desk.went()

    def _ready(self, due: Due) -> Ready:
        return Ready(due.batch, self._executor.prepare(due.batch, due.drafts))

    async def _enqueue_and_read(self) -> None:
        """Give one thread batches to enqueue, and another what the device has then: between the two, and
        from one step to the next, there is no turn of the loop.
        """
        reader = OwnThread(self._finish, self._steps.wake, "read")
        enqueuer = OwnThread(partial(self._enqueue, reader), self._steps.wake, "enqueue")
        try:
            async with anyio.create_task_group() as tasks:
                self._give_to(enqueuer, tasks)
                while True:
                    while (done := reader.take()) is None:
                        while enqueuer.take():
                            pass
                        await self._steps.park()
                    await self._tell(done)
        finally:
            await enqueuer.stop()
            await reader.stop()

    @staticmethod
    def _enqueue(reader: OwnThread[Running, Done], ready: Ready) -> bool:
        reader.put(Running(ready.batch, ready.submit()))
        return True

    async def _due(self) -> Due:
        """The next batch, as soon as its drafts are there or have been waited for long enough."""
        while not self.desk.waiting or self.desk.lacks() is Lack.RESULT:
            await self._news.wait()
        since, self._asked = self._asked, None
        if self.desk.lacks() is Lack.DRAFTS:
            since = since or time.perf_counter()
            with anyio.move_on_after(self._patience.seconds):
                while self.desk.lacks() is Lack.DRAFTS:
                    await self._news.wait()
        if since is not None:
            self._clock.waited_for_drafts(since)
        due = self.desk.due(give_up=True)
        assert due is not None
        self._clock.begin()
        return due

    async def _tell(self, done: Done) -> None:
        self._patience.ran(done.batch, done.times.step_us)
        self.desk.tell(done.batch, done.outcome, done.times)
        if self.desk.late is None:
            return
        if self.desk.lacks() is Lack.DRAFTS:
            self._asked = time.perf_counter()
        if self.desk.waiting:
            self._news.beat()
        if self.desk.holds():
            since = time.perf_counter()
            with anyio.move_on_after(self._patience.seconds):
                while self.desk.holds():
                    await self._news.wait()
                    self.desk.report()
            self.desk.report(give_up=True)
            self._clock.waited_for_drafts(since)

    def _step(self, ready: Ready) -> Computed:
        return Computed(ready.batch, ready.submit(), time.perf_counter())

    def _finish(self, running: Running) -> Done:
        # The next wait, which begins in this thread before the loop has told of this one, may use its memory.
        outcome = running.ticket.wait().copied()
        return Done(running.batch, outcome, self._clock.end())


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The exception inside, where there is one: a fault should be named by its cause."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found
