"""Passes over rows that decode, captured once and replayed: no launch of theirs costs the host time.

Captured are the layers of steps in which every row decodes, and of passes that draft for such rows. The
head and the choice of tokens come behind: they work on memory of their own, and on no padding.

Whether a step is one of them follows from the phase of its rows, never from the shape of a query: a
chunk of a prompt may be as long as a token and its drafts. A graph has room for so many rows and
so many drafts of each; what a step lacks of that is padding, which the device's own offsets leave out.
Bounds on the host are those of the graph; lengths, positions and slots are the device's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.actors.worker.base import Limits, Progress
from optimist.actors.worker.torch_rows import Rows
from optimist.actors.worker.torch_state import SlotState
from optimist.actors.worker.torch_step import StepInput
from optimist.kernels.card import wide
from optimist.kernels.device import PART, Device, Tensors, upload
from optimist.kernels.metadata import OptimisticMetadata
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.models.llama import Llama

Ints = NDArray[np.int32] | NDArray[np.int64]

ALIGNED = PART // np.dtype(np.int32).itemsize
"""entries behind which the next column begins"""

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
    if rows.num_decodes != rows.slots.size:
        return None
    return _smallest(rows.drafts + 1, keys)


def _smallest(queries: NDArray[Any], keys: tuple[GraphKey, ...]) -> GraphKey | None:
    if not queries.size:
        return None
    most = int(queries.max()) - 1
    fits = [key for key in keys if key.rows >= queries.size and key.drafts >= most]
    return min(fits, key=lambda key: (key.drafts, key.rows), default=None)


class Decoded(NamedTuple):
    """What a replay has left, without padding. hidden: the residual stream, [T, E], not to be changed."""

    step: StepInput
    hidden: Tensor


class Network(NamedTuple):
    """What is captured: the first `layers` of a model, all if None. cache: its own, None is the target's."""

    model: Llama
    cache: Tensor | None = None
    layers: int | None = None


class StepGraphs:
    """Captures at once, which takes a while: progress is told, of `what`. keys: which.

    Memory that a graph writes is written by the next replay: whoever reads it is enqueued before.
    """

    def __init__(
        self,
        network: Network,
        state: SlotState,
        device: Device,
        limits: Limits,
        keys: tuple[GraphKey, ...],
        progress: Progress,
        what: str = "graphs",
    ) -> None:
        self._keys = keys
        model, tokens = network.model, max(key.rows * (1 + key.drafts) for key in keys)
        size = (tokens, model.config.hidden_size)
        # One for all: what each graph left in memory of its own would be there as often as there are graphs.
        hidden = torch.empty(size, dtype=wide(model.dtype), device=state.device)
        self._graphs: dict[GraphKey, Graph] = {}
        for done, key in enumerate(keys):
            self._graphs[key] = Graph(network, state, device, limits.max_model_len, key, hidden)
            progress(what, done + 1, len(keys))

    def run(self, rows: Rows) -> Decoded | None:
        """Enqueue a step, or nothing where some row does not decode or no graph has room."""
        key = graph_for(rows, self._keys)
        return (
            None if key is None else self._graphs[key].run(rows.slots, rows.queries, rows.queries)
        )

    def draft(self, slots: Ints, queries: Ints, ahead: Ints) -> Decoded | None:
        """Enqueue a pass over the last `queries` tokens of rows that decode, up to `ahead` behind what the
        target has computed, [N] each; or nothing where no graph has room.
        """
        key = _smallest(queries, self._keys)
        return None if key is None else self._graphs[key].run(slots, queries, ahead)


class Graph:
    """One captured pass, and the memory that it is told rows by. hidden: where it leaves that, for all graphs."""

    def __init__(
        self,
        network: Network,
        state: SlotState,
        device: Device,
        max_model_len: int,
        key: GraphKey,
        hidden: Tensor,
    ) -> None:
        self._network, self._state = network, state
        self._max_model_len = max_model_len
        self._key = key
        self._tokens = key.rows * (1 + key.drafts)
        self._hidden = hidden[: self._tokens]
        at = state.device
        width = -(-(key.rows + 1) // ALIGNED) * ALIGNED
        self._given = torch.zeros((3, width), dtype=torch.int32, device=at)
        """slots, tokens ahead and starts of the rows, of which there is one more: all of it comes in one copy"""
        self._slots, self._ahead = self._given[:2, : key.rows]
        self._starts = self._given[2, : key.rows + 1]
        self._row = torch.zeros(self._tokens, dtype=torch.int32, device=at)
        self._replay: Callable[[], None]
        self._replay, self._out = device.capture(self._enqueue)

    def run(self, slots: Ints, queries: Ints, ahead: Ints) -> Decoded:
        """Enqueue the pass over these rows, which fit: see StepGraphs.draft."""
        count, tokens = slots.size, int(queries.sum())
        given = np.zeros(self._given.shape, np.int32)
        given[0, :count], given[1, :count], given[2] = slots, ahead, tokens
        given[2, : count + 1] = np.concatenate(([0], np.cumsum(queries)))
        self._given.copy_(upload(given, self._state.device))
        self._replay()
        hidden, ids, positions, seq_lens = self._out
        step = StepInput(
            ids[:tokens], positions[:tokens], self._slots[:count], seq_lens[:count], self._metadata
        )
        return Decoded(step, hidden[:tokens])

    def _enqueue(self) -> Tensors:
        state, key = self._state, self._key
        known = state.computed.index_select(0, self._slots) + self._ahead
        seq_lens = torch.where(self._starts.diff() > 0, known, 0)
        table = state.block_table.index_select(0, self._slots)
        size = state.cache.shape[-2]
        row = state.kernels.token_to_req_indices(self._starts, self._row)
        placed = state.kernels.place(
            state.token_ids, self._slots, self._starts, seq_lens, table, size, row=row
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
        model, cache, layers = self._network
        cache = state.cache if cache is None else cache
        hidden = model.hidden(placed.ids, placed.positions, cache, self._metadata, layers)
        return self._hidden.copy_(hidden), placed.ids, placed.positions, seq_lens
