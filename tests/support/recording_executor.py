"""The toy network, with a memory of what it was told."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Progress, RowDrafts
from optimist.actors.worker.torch_result import TorchTicket
from optimist.messages.base import ints, size
from optimist.messages.batches import Batch, ExactBatch
from optimist.testing.torch_toy import ToyExecutor


class Ran(NamedTuple):
    """The size of one step."""

    rows: int
    tokens: int


class RecordingExecutor(ToyExecutor):
    """told: the configuration of the last one that was loaded in this process. ran: its steps."""

    told: ClassVar[WorkerConfig | None] = None
    ran: ClassVar[list[Ran]] = []

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        RecordingExecutor.told = config
        RecordingExecutor.ran = []
        return super().load(config, progress)

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> TorchTicket:
        if isinstance(batch, ExactBatch):
            tokens = int(ints(batch.query_start_loc)[-1])
        else:
            chunks = batch.prefill.seq_lens.exact() - ints(batch.prefill.starts)
            tokens = (
                int(chunks.sum()) + batch.num_decodes + int(drafts.counts.sum() if drafts else 0)
            )
        self.ran.append(Ran(size(batch.slots), tokens))
        return super().submit(batch, drafts)
