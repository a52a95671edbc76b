"""Steps in which every row decodes, captured once and replayed: no launch of theirs costs the host time.

Whether a step is one of them follows from the phase of its rows, never from the shape of a query: a
chunk of a prompt may be as long as a token and its drafts. A graph has room for so many rows and
so many drafts of each; what a step lacks of that is padding, which the device's own offsets leave out.
Bounds on the host are those of the graph; lengths, positions and slots are the device's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from optimist.actors.worker.base import Limits, Progress
from optimist.actors.worker.torch_rows import Rows
from optimist.actors.worker.torch_state import SlotState
from optimist.actors.worker.torch_step import StepInput
from optimist.kernels.device import Device, Tensors, upload
from optimist.kernels.metadata import OptimisticMetadata
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.models.llama import Llama

FINE = 8
"""rows from which graphs are this many rows apart; below, they double"""


class GraphKey(NamedTuple):
    """What a graph has room for. rows: that decode. drafts: of each."""

    rows: int
    drafts: int


def graph_keys(max_slots: int, most_drafts: int) -> tuple[GraphKey, ...]:
    """Every graph of an engine, the largest first: smaller ones fit into its memory."""
    rows = {size for size in (1, 2, 4) if size < max_slots}
    rows |= {*range(FINE, max_slots, FINE), max_slots}
    drafts = {0, most_drafts // 4, most_drafts}
    return tuple(sorted((GraphKey(a, b) for a in rows for b in drafts), reverse=True))


def graph_for(rows: Rows, keys: tuple[GraphKey, ...]) -> GraphKey | None:
    """The smallest graph that has room for a step, if all of its rows decode."""
    count = rows.slots.size
    if not count or rows.num_decodes != count:
        return None
    most = int(rows.drafts.max())
    fits = [key for key in keys if key.rows >= count and key.drafts >= most]
    return min(fits, key=lambda key: (key.drafts, key.rows), default=None)


class Decoded(NamedTuple):
    """What a replay has left for the sampler, without padding. logits: [T, V], to be overwritten."""

    step: StepInput
    logits: Tensor


class StepGraphs:
    """Captures at once, which takes a while: progress is told. keys: which.

    Memory that a graph writes is written by the next replay: whoever reads it is enqueued before.
    """

    def __init__(
        self,
        model: Llama,
        state: SlotState,
        device: Device,
        limits: Limits,
        keys: tuple[GraphKey, ...],
        progress: Progress,
    ) -> None:
        self._keys = keys
        self._graphs: dict[GraphKey, Graph] = {}
        for done, key in enumerate(keys):
            self._graphs[key] = Graph(model, state, device, limits.max_model_len, key)
            progress("graphs", done + 1, len(keys))

    def run(self, rows: Rows) -> Decoded | None:
        """Enqueue a step, or nothing where some row does not decode or no graph has room."""
        key = graph_for(rows, self._keys)
        return None if key is None else self._graphs[key].run(rows)


class Graph:
    """One captured step, and the memory that it is told rows by."""

    def __init__(
        self, model: Llama, state: SlotState, device: Device, max_model_len: int, key: GraphKey
    ) -> None:
        self._model, self._state = model, state
        self._max_model_len = max_model_len
        self._key = key
        self._tokens = key.rows * (1 + key.drafts)
        at = state.device
        self._slots = torch.zeros(key.rows, dtype=torch.int64, device=at)
        self._starts = torch.zeros(key.rows + 1, dtype=torch.int32, device=at)
        self._row = torch.zeros(self._tokens, dtype=torch.int64, device=at)
        self._places = torch.arange(self._tokens, dtype=torch.int64, device=at)
        self._replay: Callable[[], None]
        self._replay, self._out = device.capture(self._enqueue)

    def run(self, rows: Rows) -> Decoded:
        """Enqueue the step of these rows, which fit."""
        count, tokens = rows.slots.size, int(rows.offsets[-1])
        starts = np.full(self._key.rows + 1, tokens, np.int32)
        starts[: count + 1] = rows.offsets
        device = self._state.device
        self._slots[:count].copy_(upload(rows.slots.astype(np.int64), device))
        self._starts.copy_(upload(starts, device))
        self._row[:tokens].copy_(upload(np.repeat(np.arange(count), rows.queries), device))
        self._replay()
        logits, ids, positions, seq_lens = self._out
        step = StepInput(
            ids[:tokens], positions[:tokens], self._slots[:count], seq_lens[:count], self._metadata
        )
        return Decoded(step, logits[:tokens])

    def _enqueue(self) -> Tensors:
        state, key = self._state, self._key
        queries = self._starts.diff()
        known = state.computed.index_select(0, self._slots) + queries
        seq_lens = torch.where(queries > 0, known, 0)
        table = state.block_table.index_select(0, self._slots)
        size = state.cache.shape[-2]
        placed = state.kernels.place(
            state.token_ids, self._slots, self._starts, seq_lens, table, size, row=self._row
        )
        self._metadata = OptimisticMetadata(
            query_start_loc=self._starts,
            seq_lens=seq_lens,
            block_table=table,
            slot_mapping=placed.kv_slots,
            query_offsets=np.arange(key.rows + 1, dtype=np.int32) * (1 + key.drafts),
            max_query_len=1 + key.drafts,
            max_seq_len=self._max_model_len,
            num_decodes=key.rows,
            is_prefilling=np.zeros(key.rows, np.bool_),
            decode_bound=SeqLensUpperBound.of([self._max_model_len] * key.rows),
            prefill_lens=ExactSeqLens.of([]),
        )
        logits = self._model.forward(
            placed.ids, placed.positions, state.cache, self._metadata, self._places
        )
        return logits, placed.ids, placed.positions, seq_lens
