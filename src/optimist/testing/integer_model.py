"""The integer model on a paged KV cache, behind the contract of an Executor.

A worker loads it as `optimist.testing.integer_model:IntegerExecutor`; `executor_options` are the
fields of IntegerModel, and those of IntegerExecutor.load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Limits, Outcome, Progress, RowDrafts, Ticket
from optimist.actors.worker.limits import batch_tokens, check_drafts, prompt_tokens
from optimist.actors.worker.prompt_scores import PromptWishes, prompt_scores
from optimist.messages.base import ints
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.errors import ConfigError
from optimist.messages.results import PromptScores
from optimist.testing.hashing import Hashes
from optimist.testing.integer_cache import Violation
from optimist.testing.integer_rows import Longs, StepRows, rows_of
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.integer_state import UNKNOWN, IntegerState
from optimist.testing.outcomes import Sampled, outcome_of

REMEMBERED = 8
"""steps whose lengths are kept"""

Drafter = Callable[[list[int], int], Sequence[int]]
"""what may come behind these tokens, exactly so many"""


class _Done(NamedTuple):
    outcome: Outcome

    def wait(self) -> Outcome:
        return self.outcome


class IntegerExecutor(IntegerState, Executor):
    """Holds per slot what a device holds, and goes by that: what a batch says is checked against it.

    checked: a batch that contradicts the device raises Violation. Otherwise the device wins, and the
    tokens tell. sleep_ms: how long each step takes beyond its computation.
    drafter: drafts on the device, where the host brings no drafts.
    lengths: of the last few steps, by epoch and step: the true length of each slot with its query.
    """

    def __init__(
        self,
        limits: Limits,
        model: IntegerModel,
        *,
        checked: bool = True,
        sleep_ms: float = 0.0,
        drafter: Drafter | None = None,
    ) -> None:
        super().__init__(limits, checked=checked)
        self.model = model
        self.closed = False
        self._sleep_s = sleep_ms / 1000
        self._drafter = drafter
        self._wishes = PromptWishes()
        self._held = None if drafter is None else limits.max_model_len
        self.lengths: dict[tuple[int, int], dict[int, int]] = {}

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
            max_batch_tokens=batch_tokens(config, on_gpu=False),
            vocab_size=model.vocab_size,
            max_prompt_tokens=prompt_tokens(config, on_gpu=False),
        )
        check_drafts(config, limits.max_model_len)
        progress("integers", 1, 1)
        return cls(
            limits,
            model,
            checked=bool(own.get("checked", True)),
            sleep_ms=float(own.get("sleep_ms", 0.0)),
        )

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> Ticket:
        """Compute a step at once. Raises Violation, see the class."""
        if self.closed:
            raise Violation("submit: the executor has been closed")
        if self._sleep_s:
            time.sleep(self._sleep_s)
        self.move(batch)
        self._wishes.move(batch)
        if drafts is None and self._drafter is not None:
            drafts = self._own_drafts(batch, self._drafter)
        return _Done(self._run(batch, rows_of(batch, drafts)))

    def close(self) -> None:
        self.closed = True

    def poison(self, blocks: NDArray[np.integer]) -> None:
        """Overwrite the KV of these blocks: nobody may read them before they are written again."""
        self.cache.poison(blocks)

    def _own_drafts(self, batch: Batch, drafter: Drafter) -> RowDrafts:
        """What the device's own proposer drafts: as much as the batch has room for."""
        ids: list[int] = []
        room = ints(batch.draft_counts)
        for slot, count in zip(ints(batch.slots)[: batch.num_decodes].tolist(), room, strict=True):
            tokens = self.tokens[slot, : self.known[slot]].tolist()
            ids += drafter(tokens, int(count))
        return RowDrafts(room, np.array(ids, np.int32))

    def _run(self, batch: Batch, rows: StepRows) -> Outcome:
        if not len(rows.slots):
            return outcome_of([], held=self._held)
        self.check_slots(rows)
        ends = self._ends(rows, batch)
        self._check_rows(rows, ends, batch)
        self._remember(batch, rows, ends)
        positions, tokens = rows.positions(ends), self._query(rows, ends)
        folds = self.cache.attend(self.table[rows.slots], ends, rows.token_rows, positions, tokens)
        sampled = self._sample(rows, ends, folds)
        prompt = self._scored(batch, rows, folds)
        rejected = np.zeros(len(ends), np.int64)
        for row in sampled:
            rejected[row.row] = row.drafted + 1 - len(row.tokens)
        self.computed[rows.slots] = self._advanced(ends, rejected)
        return outcome_of(sampled, held=self._held, prompt=prompt)

    def _scored(self, batch: Batch, rows: StepRows, folds: Hashes) -> PromptScores | None:
        """What is to be said of tokens of prompts: made of the fold over what is before them."""
        offsets = np.concatenate([[0], rows.queries.cumsum()]).astype(np.int32)
        if (asked := self._wishes.asked(batch, offsets)) is None:
            return None
        most = int(asked.alternatives.max())
        told = [
            self.model.scores(fold, token, most)
            for fold, token in zip(folds[asked.places].tolist(), asked.ids.tolist(), strict=True)
        ]
        ids = np.array([[token for token, _ in entries] for entries in told], np.int32)
        values = np.array([[value for _, value in entries] for entries in told])
        ranks = np.zeros(len(told), np.int32)
        return prompt_scores(asked, values[:, 0], ranks, ids[:, 1:], values[:, 1:])

    def _advanced(self, ends: Longs, rejected: Longs) -> Longs:
        """Tokens computed of each row when the step is over: what was rejected does not count, [R]."""
        return ends - rejected

    def _ends(self, rows: StepRows, batch: Batch) -> Longs:
        """Tokens of each row with its query: decode rows go by the device, prefill rows by the batch."""
        ends = self.computed[rows.slots] + rows.queries
        border = len(ends) - len(rows.said)
        wrong = border + np.flatnonzero(ends[border:] != rows.said)
        if len(wrong):
            row = int(wrong[0])
            said = rows.said[row - border]
            self.require(False, f"row {row}: {said} tokens announced, the device has {ends[row]}")
        prefill = len(ends) - rows.num_decodes
        ends[rows.num_decodes :] = rows.said[len(rows.said) - prefill :]
        return ends

    def _query(self, rows: StepRows, ends: Longs) -> Longs:
        """The query tokens, [Q]: of decode rows the token sampled last and drafts, of others known ones."""
        tokens = self.tokens[rows.slots[rows.token_rows], rows.positions(ends)]
        starts = rows.queries.cumsum() - rows.queries
        drafted = np.arange(len(tokens)) < rows.queries[: rows.num_decodes].sum()
        drafted[starts] = False
        tokens[starts[: rows.num_decodes]] = self.last[rows.slots[: rows.num_decodes]]
        tokens[drafted] = rows.drafts.ids
        return tokens

    def _sample(self, rows: StepRows, ends: Longs, folds: Hashes) -> list[Sampled]:
        """New tokens of the rows that sample: each draft is compared with what is sampled in its place."""
        last = rows.queries.cumsum() - 1
        drafts = np.split(rows.drafts.ids, rows.drafts.counts.cumsum()[:-1])
        found = []
        for row in np.flatnonzero(rows.samples).tolist():
            own = drafts[row].tolist() if row < rows.num_decodes else []
            at = folds[last[row] - len(own) : last[row] + 1].tolist()
            found.append(
                self._verify(row, int(rows.slots[row]), int(ends[row]) - len(own), own, at)
            )
        return found

    def _verify(
        self, row: int, slot: int, position: int, drafts: list[int], folds: list[int]
    ) -> Sampled:
        """Tokens from `position` on, up to the first that differs from its draft, and behind the last."""
        opened, tokens = self.opened[slot], list[int]()
        for place, fold in enumerate(folds):
            at = position + place
            token = self.model.choose(fold, at, at - opened.prompt_len, opened.sampling)
            tokens.append(token)
            if place == len(drafts) or token != drafts[place]:
                break
        self.tokens[slot, position : position + len(tokens)] = tokens
        self.last[slot], self.known[slot] = tokens[-1], position + len(tokens)
        wanted = opened.sampling.logprobs
        logprobs = [
            self.model.logprobs(token, position + i, wanted) if wanted >= 0 else None
            for i, token in enumerate(tokens)
        ]
        return Sampled(row, slot, opened.generation, tokens, len(drafts), logprobs)

    def _remember(self, batch: Batch, rows: StepRows, ends: Longs) -> None:
        """Keep the true lengths of the last few steps."""
        self.lengths[batch.epoch, batch.step] = dict(
            zip(rows.slots.tolist(), ends.tolist(), strict=True)
        )
        if len(self.lengths) > REMEMBERED:
            del self.lengths[next(iter(self.lengths))]

    def _check_rows(self, rows: StepRows, ends: Longs, batch: Batch) -> None:
        known, border = self.known[rows.slots], rows.num_decodes
        decodes, drafts = rows.slots[:border], rows.drafts.counts
        self.require(
            bool((self.last[decodes] != UNKNOWN).all()), "a row decodes before it has sampled"
        )
        exact = isinstance(batch, ExactBatch)
        room = ints(batch.draft_counts)
        self.require(
            bool((drafts == room if exact else drafts <= room).all()), "draft_counts: other drafts"
        )
        self.require(
            bool((ends[:border] - drafts == known[:border]).all()),
            "a row decodes past the token that it sampled last",
        )
        ends, known = ends[border:], known[border:]
        self.require(bool((ends <= known).all()), "a row computes a token that nobody knows yet")
        self.require(
            bool(((ends == known) == rows.samples[border:]).all()),
            "samples: a row samples exactly when its last known token is computed",
        )
        self._check_sizes(rows, batch)

    def _check_sizes(self, rows: StepRows, batch: Batch) -> None:
        """Bounds decide sizes: they must suffice, and every block up to them must be there."""
        size, border = self.limits.block_size, rows.num_decodes
        lens = rows.said
        if isinstance(batch, OptimisticBatch):
            # bound, test: the bound itself is held against the lengths of the device
            bound = batch.bound.sizing_array(reader="testing.integer_model")
            lens = np.concatenate([bound, lens])
            ends = self.computed[rows.slots[:border]] + rows.queries[:border]
            self.require(bool((ends <= bound).all()), "bound: a row is longer than its bound")
        blocks = -(-lens // size)
        # bound, test: it must suffice for the longest row
        self.require(batch.max_blocks >= blocks.max(), "max_blocks: too few for the longest row")
        # bound, test: it must suffice for the longest query
        self.require(batch.max_query_len >= rows.queries.max(), "max_query_len: too short")
        table = self.table[rows.slots] == self.cache.unset
        missing = table & (np.arange(table.shape[1]) < blocks[:, None])
        self.require(not missing.any(), "blocks: a row has too few for its length or bound")
