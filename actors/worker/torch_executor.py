"""An executor on torch: a Llama-family network over a paged cache."""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from torch import Tensor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Limits, Progress, RowDrafts
from optimist.actors.worker.torch_choice import Choice
from optimist.actors.worker.torch_limits import limits_of
from optimist.actors.worker.torch_result import Chosen, TorchTicket
from optimist.actors.worker.torch_rows import Rows, blocks_needed, longest, rows_of
from optimist.actors.worker.torch_sampling import SamplingState
from optimist.actors.worker.torch_state import SlotState
from optimist.actors.worker.torch_step import StepInput, step_input
from optimist.kernels.advance import advance
from optimist.kernels.paged_attention import prepare
from optimist.kernels.sync_check import checked_step
from optimist.kernels.verify import Places
from optimist.messages.batches import Batch
from optimist.models.llama import Llama
from optimist.models.source import open_source


class TorchExecutor(Executor):
    """Runs batches of both kinds, with drafts from the host or without.

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
        self._choice = Choice(self._sampling, "sample")

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
            vocab_size = self.limits.vocab_size
            rows = rows_of(batch, drafts, itself=False, vocab_size=vocab_size)
            self._move(batch)
            needed = blocks_needed(batch, self.limits.block_size)
            self._state.check_rows(rows, longest(batch), needed)
            if drafts is not None and drafts.ids.size:
                slots = rows.slots[: rows.num_decodes]
                self._state.draft(slots, rows.drafts, torch.from_numpy(drafts.ids.copy()))
            return TorchTicket(self._run(batch, rows))

    def reset(self) -> None:
        """Forget every slot; the block table is at version 0 again."""
        self._state.reset()

    def close(self) -> None:
        """Give up weights and cache. Nothing may be called after it."""
        del self._model, self._state, self._sampling, self._choice

    def _move(self, batch: Batch) -> None:
        self._state.close_slots(batch.closed)
        for opened in batch.opened:
            self._state.open_slot(opened)
            self._sampling.open_slot(opened)
        self._state.apply_blocks(batch.blocks)

    def _run(self, batch: Batch, rows: Rows) -> Chosen:
        state, step = self._state, step_input(batch, rows, self._state)
        at = torch.from_numpy(rows.places)
        logits = self._model.forward(step.ids, step.positions, state.cache, step.metadata, at)
        drafts = step.ids.index_select(0, torch.from_numpy(rows.draft_tokens))
        places = Places.of(rows.drafted, drafts)
        positions = step.positions.index_select(0, at) + 1
        slots, generations = rows.slots[rows.sampling], rows.generations[rows.sampling]
        chosen = self._choice.choose(slots, generations, places, positions, logits, None)
        self._advance(rows, step, chosen, positions)
        return chosen

    def _advance(self, rows: Rows, step: StepInput, chosen: Chosen, positions: Tensor) -> None:
        """What the step leaves behind in its slots: only what was accepted is counted."""
        places, verified = chosen.places, chosen.verified
        rejected = torch.zeros(rows.slots.size, dtype=torch.int64)
        rejected.index_copy_(
            0, torch.from_numpy(rows.sampling.astype(np.int64)), places.counts - verified.accepted
        )
        queries = torch.from_numpy(rows.queries)
        owners = torch.from_numpy(chosen.slots.astype(np.int64)).index_select(0, places.row)
        advance(
            self._state.computed,
            self._state.token_ids,
            step.slots,
            queries,
            rejected.to(torch.int32),
            owners,
            positions,
            verified.ids,
        )
