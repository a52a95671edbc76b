"""Drives an executor by hand: batches as a builder would make them, for tests of executors alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from optimist.actors.worker.base import Executor, Outcome, Prepared, RowDrafts, Ticket
from optimist.messages.base import EMPTY, column
from optimist.messages.batches import ExactBatch
from optimist.messages.lengths import ExactSeqLens
from optimist.messages.slots import BlockDelta, OpenedSlot, Sampling

GREEDY = Sampling(temperature=0, seed=0)


class Row(NamedTuple):
    """One row: its query length. decode: the query is the token that was sampled last."""

    slot: int
    query: int
    decode: bool = False


class Hand:
    """Keeps what scheduler and builder would keep about one executor, in the plainest form."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.step = 0
        self._opened: list[OpenedSlot] = []
        self._closed: list[int] = []
        self._entries: list[tuple[int, int, int]] = []
        self._generation: dict[int, int] = {}
        self._known: dict[int, int] = {}
        self._computed: dict[int, int] = {}

    def open(
        self,
        slot: int,
        tokens: Sequence[int],
        blocks: Sequence[int],
        *,
        prompt_len: int | None = None,
        cached_len: int = 0,
        sampling: Sampling = GREEDY,
    ) -> None:
        """Move a request into a slot with the next step, with its first blocks."""
        generation = self._generation.get(slot, -1) + 1
        self._opened.append(
            OpenedSlot(
                slot=slot,
                generation=generation,
                request=slot,
                token_ids=column(tokens),
                prompt_len=len(tokens) if prompt_len is None else prompt_len,
                cached_len=cached_len,
                sampling=sampling,
            )
        )
        self._generation[slot] = generation
        self._known[slot], self._computed[slot] = len(tokens), cached_len
        self.give(slot, 0, blocks)

    def give(self, slot: int, offset: int, blocks: Sequence[int]) -> None:
        """Add blocks to the table with the next step."""
        self._entries += [(slot, offset + i, block) for i, block in enumerate(blocks)]

    def close(self, slot: int) -> None:
        """Move the request out with the next step."""
        self._closed.append(slot)

    def submit(self, rows: Sequence[Row], drafts: RowDrafts | None = None) -> Ticket:
        """Submit the next step: decode rows first."""
        return self.executor.submit(self._batch(rows), drafts)

    def prepare(self, rows: Sequence[Row]) -> Prepared:
        """Prepare the next step; the call of what is returned submits it."""
        return self.executor.prepare(self._batch(rows))

    def _batch(self, rows: Sequence[Row]) -> ExactBatch:
        rows = sorted(rows, key=lambda row: not row.decode)
        samples = [self._advance(row) for row in rows]
        batch = ExactBatch(
            incarnation=1,
            epoch=1,
            step=self.step,
            opened=tuple(self._opened),
            closed=column(self._closed),
            blocks=self._delta(),
            slots=column(row.slot for row in rows),
            generations=column(self._generation[row.slot] for row in rows),
            num_decodes=sum(row.decode for row in rows),
            draft_counts=bytes(4 * sum(row.decode for row in rows)),
            max_query_len=max((row.query for row in rows), default=0),
            max_blocks=self.executor.limits.num_blocks,
            query_start_loc=_starts([row.query for row in rows]),
            seq_lens=ExactSeqLens.of([self._computed[row.slot] for row in rows]),
            samples=column(samples),
        )
        self.step += 1
        self._opened, self._closed, self._entries = [], [], []
        return batch

    def run(self, rows: Sequence[Row]) -> dict[int, int]:
        """Run the next step: the tokens sampled, by slot."""
        return tokens_by_slot(self.submit(rows).wait())

    def decode(self, slot: int, count: int) -> list[int]:
        """Run so many steps of one decode row: the tokens sampled."""
        return [self.run([Row(slot, 1, decode=True)])[slot] for _ in range(count)]

    def _advance(self, row: Row) -> int:
        self._computed[row.slot] += row.query
        samples = self._computed[row.slot] == self._known[row.slot]
        self._known[row.slot] += samples
        return int(samples)

    def _delta(self) -> BlockDelta:
        return BlockDelta(
            version=self.step + 1,
            slots=column(slot for slot, _, _ in self._entries),
            offsets=column(offset for _, offset, _ in self._entries),
            counts=column(1 for _ in self._entries),
            blocks=column(block for _, _, block in self._entries) if self._entries else EMPTY,
        )


def tokens_by_slot(outcome: Outcome) -> dict[int, int]:
    """The single token of every row that sampled."""
    return dict(zip(outcome.slots.tolist(), outcome.token_ids.tolist(), strict=True))


def _starts(queries: Sequence[int]) -> bytes:
    starts = [0]
    for query in queries:
        starts.append(starts[-1] + query)
    return column(starts)
