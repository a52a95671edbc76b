"""How long the worker waits for drafts, on a loop."""

from __future__ import annotations

import time
from typing import Any, Self

import anyio
import pytest

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.actor import Worker
from optimist.actors.worker.base import Executor, Limits, Progress, RowDrafts, Ticket
from optimist.messages.base import column, ints
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.control import Resync
from optimist.messages.drafting import Accepted, Drafts
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.results import Capacity, StepResult
from optimist.messages.slots import BlockDelta, OpenedSlot, PrefillRows, Sampling
from optimist.testing.integer_model import IntegerExecutor
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.late_device import LateDevice
from optimist.transport.mailbox import Mailbox

pytestmark = pytest.mark.anyio

LIMITS = Limits(
    num_blocks=8, block_size=8, max_slots=1, max_model_len=32, max_batch_tokens=32, vocab_size=97
)
FOR_EVER = 1e9
"""as a share of a step"""

LOOKUP = 0.01
"""seconds that looking drafts up takes: the device has waited for drafts so long"""


class Counting(IntegerExecutor):
    """ran: drafts of each step."""

    def __init__(self) -> None:
        super().__init__(LIMITS, IntegerModel())
        self.ran: list[int] = []

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        return cls()

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> Ticket:
        assert drafts is not None
        self.ran.append(int(drafts.counts.sum()))
        return super().submit(batch, drafts)


class Harness:
    """A worker with one request in slot 0, between a scheduler and a proposer that are mailboxes."""

    def __init__(self, wait: float, *, late: bool) -> None:
        self.counting = Counting()
        executor: Executor = self.counting
        if late:
            executor = LateDevice(self.counting, lateness=2, seed=1)
        self.inbox: Mailbox[Any] = Mailbox((ExactBatch, OptimisticBatch, Drafts, Resync))
        self.scheduler: Mailbox[Any] = Mailbox((StepResult, Capacity, Resync))
        self.proposer: Mailbox[Any] = Mailbox((Accepted, Capacity))
        self.worker = Worker(
            WorkerConfig(draft_wait=wait),
            3,
            scheduler=self.scheduler.ref(),
            executor=executor,
            proposer=self.proposer.ref(),
        )

    async def next(self, box: Mailbox[Any], kind: type[Any]) -> Any:
        """The next message of this kind."""
        with anyio.fail_after(20):
            while True:
                await box.wait()
                if isinstance(message := box.receive_nowait(), kind):
                    return message

    def prompt(self) -> None:
        rows = PrefillRows(
            slots=column([0]),
            generations=column([0]),
            starts=column([0]),
            seq_lens=ExactSeqLens.of([4]),
            samples=column([1]),
        )
        opened = OpenedSlot(
            slot=0,
            generation=0,
            request=1,
            token_ids=column([1, 2, 3, 4]),
            prompt_len=4,
            cached_len=0,
            sampling=Sampling(temperature=0.0, seed=0),
        )
        blocks = BlockDelta(
            version=1, slots=column([0]), offsets=column([0]), counts=column([2]),
            blocks=column([0, 1]),
        )  # fmt: skip
        self.inbox.ref().send(
            OptimisticBatch(
                incarnation=2, epoch=3, step=0, opened=(opened,), blocks=blocks, slots=column([0]),
                generations=column([0]), max_query_len=4, max_blocks=1, prefill=rows,
            )
        )  # fmt: skip

    def decode(self, step: int, bound: int) -> None:
        self.inbox.ref().send(
            OptimisticBatch(
                incarnation=2, epoch=3, step=step, blocks=BlockDelta(version=step + 1),
                slots=column([0]), generations=column([0]), num_decodes=1, draft_counts=column([3]),
                max_query_len=4, max_blocks=2, bound=SeqLensUpperBound.of([bound]),
                prefill=PrefillRows(),
            )
        )  # fmt: skip


def hold_the_loop(seconds: float) -> None:
    """As whoever drafts on it does."""
    time.sleep(seconds)


@pytest.mark.parametrize("late", [False, True], ids=["computed", "late"])
async def test_a_batch_that_is_there_runs_when_its_drafts_come(late: bool) -> None:
    harness = Harness(FOR_EVER, late=late)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.worker.run, harness.inbox)
        harness.prompt()
        harness.decode(1, 8)
        told = await harness.next(harness.proposer, Accepted)
        assert (told.after_step, ints(told.wanted).tolist()) == (0, [3])
        assert harness.counting.ran == [0]
        hold_the_loop(LOOKUP)
        harness.inbox.ref().send(
            Drafts(
                incarnation=4, epoch=3, after_step=0, slots=column([0]), generations=column([0]),
                counts=column([2]), token_ids=column([5, 6]),
            )
        )  # fmt: skip
        first = await harness.next(harness.scheduler, StepResult)
        result = await harness.next(harness.scheduler, StepResult)
        assert (first.step, result.step) == (0, 1)
        assert harness.counting.ran == [0, 2] and ints(result.drafts_run).tolist() == [2]
        assert result.drafts_us >= 1e6 * LOOKUP
        harness.inbox.close()


@pytest.mark.parametrize("late", [False, True], ids=["computed", "late"])
async def test_a_batch_runs_without_drafts_that_do_not_come(late: bool) -> None:
    harness = Harness(0.1, late=late)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.worker.run, harness.inbox)
        harness.prompt()
        harness.decode(1, 8)
        harness.decode(2, 12)
        steps = [(await harness.next(harness.scheduler, StepResult)).step for _ in range(3)]
        assert steps == [0, 1, 2] and harness.counting.ran == [0, 0, 0]
        harness.inbox.close()


async def test_a_newborn_proposer_is_told_how_large_the_device_is() -> None:
    harness = Harness(0.0, late=False)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.worker.run, harness.inbox)
        first = await harness.next(harness.proposer, Capacity)
        harness.inbox.ref().send(Resync(incarnation=4, actor="proposer"))
        assert await harness.next(harness.proposer, Capacity) == first
        harness.inbox.close()
