"""An executor on torch: a Llama-family network over a paged cache."""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Limits, Progress, RowDrafts
from optimist.actors.worker.torch_limits import limits_of
from optimist.actors.worker.torch_result import Reported, TorchTicket
from optimist.actors.worker.torch_rows import Rows, blocks_needed, longest, rows_of
from optimist.actors.worker.torch_sampling import SamplingState
from optimist.actors.worker.torch_state import SlotState
from optimist.actors.worker.torch_step import StepInput, step_input
from optimist.kernels.logprobs import logprobs
from optimist.kernels.paged_attention import prepare
from optimist.kernels.sampling import greedy, sample
from optimist.kernels.sync_check import checked_step
from optimist.messages.batches import Batch
from optimist.models.llama import Llama
from optimist.models.source import open_source

Ints = NDArray[np.int32]


class TorchExecutor(Executor):
    """Runs ExactBatch, and OptimisticBatch without drafts.

    model: the network, with its weights. config: sizes; its `model`, `dtype` and `threads` are read
    by `load` alone. Raises ConfigError when the sizes do not fit the model or each other.
    """

    operators = (Llama.forward, prepare)

    def __init__(self, model: Llama, config: WorkerConfig) -> None:
        self.limits: Limits = limits_of(config, model.config, model.dtype)
        self._model = model
        cache = model.allocate_cache(self.limits.num_blocks, self.limits.block_size)
        self._state = SlotState(self.limits, cache)
        self._sampling = SamplingState(self.limits.max_slots, self.limits.vocab_size)

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        """Read the model that config names, the default one if it names none, in config.dtype.

        Sets torch's threads for the whole process when config.threads is given. Sizes that do not
        fit the model are refused before a weight is read.
        """
        from optimist.models.loader import load_model

        path = config.model
        if not path:
            from optimist.models.default import default_model

            path = str(default_model())
        dtype = getattr(torch, config.dtype)
        with open_source(path) as source:
            limits_of(config, source.config, dtype)
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        return cls(load_model(path, dtype, progress), config)

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> TorchTicket:
        """Compute a step. Raises MessageError, before any device state changes for its rows, when
        the batch contradicts what the slots hold. Raises SyncError as OPTIMIST_SYNC_CHECK says.
        """
        with checked_step(), torch.inference_mode():
            rows = rows_of(batch)
            self._move(batch)
            needed = blocks_needed(batch, self.limits.block_size)
            self._state.check_rows(rows, longest(batch), needed)
            if not rows.slots.size:
                return TorchTicket(rows.slots, rows.generations, torch.zeros(0), None)
            return self._run(batch, rows)

    def reset(self) -> None:
        """Forget every slot; the block table is at version 0 again."""
        self._state.reset()

    def close(self) -> None:
        """Give up weights and cache. Nothing may be called after it."""
        del self._model, self._state, self._sampling

    def _move(self, batch: Batch) -> None:
        self._state.close_slots(batch.closed)
        for opened in batch.opened:
            self._state.open_slot(opened)
            self._sampling.open_slot(opened)
        self._state.apply_blocks(batch.blocks)

    def _run(self, batch: Batch, rows: Rows) -> TorchTicket:
        step = step_input(batch, rows, self._state)
        state, last = self._state, torch.from_numpy(rows.last)
        logits = self._model.forward(step.ids, step.positions, state.cache, step.metadata, last)
        state.computed.index_copy_(0, step.slots, step.seq_lens)
        slots, generations = rows.slots[rows.sampling], rows.generations[rows.sampling]
        ids, reported = self._choose(slots, rows, step, logits)
        return TorchTicket(slots, generations, ids, reported)

    def _choose(
        self, slots: Ints, rows: Rows, step: StepInput, logits: Tensor
    ) -> tuple[Tensor, Reported | None]:
        which = torch.from_numpy(rows.sampling)
        seq_lens = step.seq_lens.index_select(0, which)
        asked = np.flatnonzero((alternatives := self._sampling.alternatives(slots)) >= 0)
        raw = logits.index_select(0, torch.from_numpy(asked)) if asked.size else None
        if self._sampling.greedy(slots):
            ids = greedy(logits)
        else:
            ids = sample(logits, self._sampling.rows(slots, seq_lens))
        self._state.append(step.slots.index_select(0, which), seq_lens, ids)
        self._sampling.chosen(slots, ids)
        if raw is None:
            return ids, None
        counts = alternatives[asked]
        found = logprobs(raw, ids.index_select(0, torch.from_numpy(asked)), int(counts.max()))
        return ids, Reported(asked.astype(np.int32), counts, found)
