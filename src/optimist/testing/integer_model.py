"""The integer model on a paged KV cache, behind the contract of an Executor.

A worker loads it as `optimist.testing.integer_model:IntegerExecutor`; `executor_options` are the
fields of IntegerModel, and those of IntegerExecutor.load.
"""

from __future__ import annotations

import time
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Limits, Outcome, Progress, RowDrafts, Ticket
from optimist.messages.base import Column, ints
from optimist.messages.batches import Batch, ExactBatch
from optimist.messages.errors import ConfigError
from optimist.messages.slots import BlockDelta, OpenedSlot
from optimist.testing.integer_cache import IntegerCache, Violation
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.outcomes import Sampled, outcome_of

UNKNOWN = -1
"""the last sampled token of a slot that has sampled none"""


class _Done(NamedTuple):
    outcome: Outcome

    def wait(self) -> Outcome:
        return self.outcome


class IntegerExecutor(Executor):
    """Holds per slot what a device holds, and goes by that: what a batch says is checked against it.

    checked: a batch that contradicts the device raises Violation. Otherwise the device wins, and the
    tokens tell. sleep_ms: how long each step takes beyond its computation.
    """

    def __init__(
        self, limits: Limits, model: IntegerModel, *, checked: bool = True, sleep_ms: float = 0.0
    ) -> None:
        self.limits = limits
        self.model = model
        self.cache = IntegerCache(limits.num_blocks, limits.block_size, checked=checked)
        self.closed = False
        self._checked = checked
        self._sleep_s = sleep_ms / 1000
        self.reset()

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        """Options beside the model's: checked, sleep_ms. Raises ConfigError for an unknown one."""
        options = dict(config.executor_options)
        own = {name: options.pop(name) for name in ("checked", "sleep_ms") if name in options}
        if unknown := set(options) - set(IntegerModel._fields):
            raise ConfigError(f"executor_options: IntegerExecutor has no {sorted(unknown)}")
        model = IntegerModel(**options).checked()  # type: ignore[arg-type]
        limits = Limits(
            num_blocks=config.kv_blocks if config.kv_blocks is not None else 256,
            block_size=config.block_size,
            max_slots=config.max_slots,
            max_model_len=config.max_model_len if config.max_model_len is not None else 512,
            max_batch_tokens=config.max_batch_tokens,
            vocab_size=model.vocab_size,
        )
        progress("integers", 1, 1)
        return cls(
            limits,
            model,
            checked=bool(own.get("checked", True)),
            sleep_ms=float(own.get("sleep_ms", 0.0)),
        )

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> Ticket:
        """Compute a step at once. Raises Violation, see the class."""
        if not isinstance(batch, ExactBatch):
            raise Violation(f"submit: expected an ExactBatch, got {type(batch).__name__}")
        if self.closed:
            raise Violation("submit: the executor has been closed")
        if self._sleep_s:
            time.sleep(self._sleep_s)
        self._close(batch.closed)
        for opened in batch.opened:
            self._open(opened)
        self._apply(batch.blocks)
        return _Done(self._run(batch))

    def reset(self) -> None:
        slots, length = self.limits.max_slots, self.limits.max_model_len
        width = -(-length // self.limits.block_size)
        self.version = 0
        self.computed = np.zeros(slots, np.int64)
        self.known = np.zeros(slots, np.int64)
        self.tokens = np.zeros((slots, length + 1), np.int64)
        self.last = np.full(slots, UNKNOWN, np.int64)
        self.table = np.full((slots, width), self.cache.unset, np.int32)
        self.opened: dict[int, OpenedSlot] = {}
        self.cache.poison()

    def close(self) -> None:
        self.closed = True

    def poison(self, blocks: NDArray[np.integer]) -> None:
        """Overwrite the KV of these blocks: nobody may read them before they are written again."""
        self.cache.poison(blocks)

    def _close(self, closed: Column) -> None:
        for slot in ints(closed).tolist():
            self._require(slot in self.opened, f"closed: slot {slot} is not open")
            self.opened.pop(slot, None)
            self.computed[slot] = self.known[slot] = 0
            self.last[slot] = UNKNOWN
            self.table[slot] = self.cache.unset

    def _open(self, opened: OpenedSlot) -> None:
        slot, tokens = opened.slot, ints(opened.token_ids)
        self._require(slot not in self.opened, f"opened: slot {slot} is already open")
        self._require(
            opened.cached_len < len(tokens) and opened.cached_len % self.limits.block_size == 0,
            f"opened: slot {slot} has {len(tokens)} tokens, of them {opened.cached_len} cached",
        )
        self.opened[slot] = opened
        self.computed[slot], self.known[slot] = opened.cached_len, len(tokens)
        self.tokens[slot, : len(tokens)] = tokens

    def _apply(self, delta: BlockDelta) -> None:
        self._require(
            delta.version == self.version + 1,
            f"blocks: version {delta.version} came to a table of version {self.version}",
        )
        self.version = delta.version
        slots, offsets, counts = ints(delta.slots), ints(delta.offsets), ints(delta.counts)
        blocks, start = ints(delta.blocks), 0
        for slot, offset, count in zip(slots, offsets, counts, strict=True):
            self._assign(int(slot), int(offset), blocks[start : start + count])
            start += count

    def _assign(self, slot: int, offset: int, blocks: NDArray[np.int32]) -> None:
        self._require(slot in self.opened, f"blocks: slot {slot} is not open")
        self._require(
            bool((self.table[slot, offset : offset + len(blocks)] == self.cache.unset).all()),
            f"blocks: an entry of slot {slot} from {offset} is already set",
        )
        self.table[slot, offset : offset + len(blocks)] = blocks
        cached = self.opened[slot].cached_len // self.limits.block_size
        self.cache.poison(blocks[max(0, cached - offset) :])

    def _run(self, batch: ExactBatch) -> Outcome:
        slots = ints(batch.slots).astype(np.int64)
        if not len(slots):
            return outcome_of([])
        self._check_slots(slots, ints(batch.generations))
        queries = np.diff(ints(batch.query_start_loc)).astype(np.int64)
        ends = self._ends(slots, queries, batch)
        self._check_rows(slots, ends, batch)
        rows = np.repeat(np.arange(len(slots)), queries)
        first = np.repeat(ends - queries.cumsum(), queries)
        positions = first + np.arange(len(rows))
        tokens = self.tokens[slots[rows], positions]
        tokens[: batch.num_decodes] = self.last[slots[: batch.num_decodes]]
        folds = self.cache.attend(self.table[slots], ends, rows, positions, tokens)
        self.computed[slots] = ends
        chosen = np.flatnonzero(ints(batch.samples))
        return outcome_of([self._sample(int(slots[i]), int(folds[i])) for i in chosen])

    def _ends(
        self, slots: NDArray[np.int64], queries: NDArray[np.int64], batch: ExactBatch
    ) -> NDArray[np.int64]:
        """Tokens of each row after the step: decode rows go by the device, prefill rows by the batch."""
        ends = self.computed[slots] + queries
        said = batch.seq_lens.exact().astype(np.int64)
        wrong = np.flatnonzero(ends != said)
        if len(wrong):
            row = int(wrong[0])
            self._require(
                False, f"row {row}: {said[row]} tokens announced, the device has {ends[row]}"
            )
        ends[batch.num_decodes :] = said[batch.num_decodes :]
        return ends

    def _sample(self, slot: int, fold: int) -> Sampled:
        opened, position = self.opened[slot], int(self.computed[slot])
        token = self.model.choose(fold, position, position - opened.prompt_len, opened.sampling)
        self.tokens[slot, position] = self.last[slot] = token
        self.known[slot] = position + 1
        wanted = opened.sampling.logprobs
        logprobs = self.model.logprobs(token, position, wanted) if wanted >= 0 else None
        return Sampled(slot, opened.generation, token, logprobs)

    def _check_slots(self, slots: NDArray[np.int64], generations: NDArray[np.int32]) -> None:
        self._require(len(set(slots.tolist())) == len(slots), "slots: a slot has two rows")
        for slot, generation in zip(slots.tolist(), generations.tolist(), strict=True):
            opened = self.opened.get(slot)
            self._require(opened is not None, f"slots: slot {slot} is not open")
            self._require(
                opened is not None and opened.generation == generation,
                f"slots: slot {slot} is not of generation {generation}",
            )

    def _check_rows(
        self, slots: NDArray[np.int64], ends: NDArray[np.int64], batch: ExactBatch
    ) -> None:
        known, samples = self.known[slots], ints(batch.samples)
        decodes = slots[: batch.num_decodes]
        self._require(
            bool((self.last[decodes] != UNKNOWN).all()), "a row decodes before it has sampled"
        )
        self._require(not ints(batch.draft_counts).any(), "draft_counts: drafts are not supported")
        self._require(bool((ends <= known).all()), "a row computes a token that nobody knows yet")
        self._require(
            bool(((ends == known) == (samples != 0)).all()),
            "samples: a row samples exactly when its last known token is computed",
        )

    def _require(self, good: bool, message: str) -> None:
        if self._checked and not good:
            raise Violation(message)
