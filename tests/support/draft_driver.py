"""Drives an executor with drafts: batches of either kind, and steps that nobody has read yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optimist.actors.worker.base import Executor, Outcome, RowDrafts, Ticket
from optimist.messages.base import column
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.slots import BlockDelta, OpenedSlot, PrefillRows, Sampling

Drafts = Mapping[int, Sequence[int]]


class Driver:
    """Keeps tokens and bounds of each slot. Blocks of a slot: `width` of them, its own.

    optimistic: decode rows carry bounds, and steps may be submitted before earlier ones are read.
    """

    def __init__(self, executor: Executor, *, optimistic: bool, width: int = 10) -> None:
        self.executor = executor
        self.optimistic = optimistic
        self.width = width
        self.step = 0
        self.tokens: dict[int, list[int]] = {}
        self.last: Outcome | None = None
        self._bound: dict[int, int] = {}
        self._opened: list[OpenedSlot] = []
        self._closed: list[int] = []
        self._generation: dict[int, int] = {}

    def open(self, slot: int, prompt: Sequence[int], sampling: Sampling, **more: Any) -> None:
        """A request that the next step prefills, by a chunk of any size."""
        self.tokens[slot], self._bound[slot] = list(prompt), more.get("cached_len", 0)
        self._generation[slot] = more.get("generation", 0)
        plain: dict[str, Any] = {
            "generation": 0,
            "request": slot,
            "prompt_len": len(prompt),
            "cached_len": 0,
        }
        self._opened.append(
            OpenedSlot(slot=slot, token_ids=column(prompt), sampling=sampling, **plain | more)
        )

    def close(self, slot: int) -> None:
        """The request leaves with the next step."""
        self._closed.append(slot)

    def prefill(
        self, chunks: Mapping[int, int], drafts: Drafts | None = None, *, itself: bool = False
    ) -> Outcome:
        """Run a step in which these slots compute so many prompt tokens beside the decode rows."""
        return self.read(self.submit(drafts or {}, chunks, itself=itself))

    def decode(self, drafts: Drafts, *, itself: bool = False) -> Outcome:
        """Run a step of decode rows. itself: the device drafts, as many as are given."""
        return self.read(self.submit(drafts, itself=itself))

    def read(self, ticket: Ticket) -> Outcome:
        """Wait for a step, and settle it."""
        self.last = outcome = ticket.wait()
        ids = iter(outcome.token_ids.tolist())
        columns = (outcome.slots, outcome.token_counts, outcome.drafts_run)
        for slot, count, drafts in zip(*(c.tolist() for c in columns), strict=True):
            self.tokens[slot] += [next(ids) for _ in range(count)]
            self._bound[slot] -= 1 + drafts - count
        return outcome

    def submit(
        self, drafts: Drafts, chunks: Mapping[int, int] | None = None, *, itself: bool = False
    ) -> Ticket:
        """Submit a step."""
        decodes, prefills = list(drafts), dict(chunks or {})
        counts = np.array([len(drafts[slot]) for slot in decodes], np.int32)
        for slot in decodes:
            self._bound[slot] += 1 + len(drafts[slot])
        starts = {slot: self._bound[slot] for slot in prefills}
        for slot, chunk in prefills.items():
            self._bound[slot] += chunk
        samples = [int(self._bound[slot] == len(self.tokens[slot])) for slot in prefills]
        batch = self._batch(decodes, counts, prefills, starts, samples)
        ids = np.array([token for slot in decodes for token in drafts[slot]], np.int32)
        self.step, self._opened, self._closed = self.step + 1, [], []
        return self.executor.submit(batch, None if itself else RowDrafts(counts, ids))

    def _batch(
        self,
        decodes: list[int],
        counts: np.ndarray[Any, np.dtype[np.int32]],
        prefills: dict[int, int],
        starts: dict[int, int],
        samples: list[int],
    ) -> Batch:
        slots = [*decodes, *prefills]
        queries = [*(counts + 1).tolist(), *prefills.values()]
        shared: dict[str, Any] = {
            "incarnation": 1,
            "epoch": 1,
            "step": self.step,
            "opened": tuple(self._opened),
            "closed": column(self._closed),
            "blocks": self._delta(),
            "slots": column(slots),
            "generations": column(self._generation[slot] for slot in slots),
            "num_decodes": len(decodes),
            "draft_counts": column(counts),
            "max_query_len": max(queries, default=0),
            "max_blocks": self.width,
        }
        if self.optimistic:
            prefill = PrefillRows(
                slots=column(prefills),
                generations=column(self._generation[slot] for slot in prefills),
                starts=column(starts.values()),
                seq_lens=ExactSeqLens.of([self._bound[slot] for slot in prefills]),
                samples=column(samples),
            )
            bound = SeqLensUpperBound.of([self._bound[slot] for slot in decodes])
            return OptimisticBatch(**shared, bound=bound, prefill=prefill)
        for slot in decodes:
            # Nothing is in flight: the newest token is known and has no KV yet.
            self._bound[slot] = len(self.tokens[slot]) + int(counts[decodes.index(slot)])
        return ExactBatch(
            **shared,
            query_start_loc=column(np.cumsum([0, *queries])),
            seq_lens=ExactSeqLens.of([self._bound[slot] for slot in slots]),
            samples=column([1] * len(decodes) + samples),
        )

    def _delta(self) -> BlockDelta:
        opened = [one.slot for one in self._opened]
        blocks = [slot * self.width + i for slot in opened for i in range(self.width)]
        return BlockDelta(
            version=self.step + 1,
            slots=column(opened),
            offsets=column([0] * len(opened)),
            counts=column([self.width] * len(opened)),
            blocks=column(blocks),
        )
