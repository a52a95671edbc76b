"""A device that knows only what messages say, and notices every length, slot or block that is wrong."""

from __future__ import annotations

from optimist.messages.base import column, ints
from optimist.messages.batches import ExactBatch
from optimist.messages.results import StepResult


class Resident:
    """What the device holds for one slot."""

    def __init__(self, request: int, generation: int, tokens: list[int]) -> None:
        self.request = request
        self.generation = generation
        self.tokens = tokens
        self.computed = 0
        self.table: list[int] = []


class Device:
    """Keeps its own lengths and its own KV, from messages only; each token it samples is unique.

    A KV entry is the token and position it was computed from, so a stale block, a wrong length or a slot
    that was given back too early is seen when it is read.
    """

    def __init__(
        self, block_size: int, max_batch_tokens: int, predecessor: Device | None = None
    ) -> None:
        self.block_size = block_size
        self.max_batch_tokens = max_batch_tokens
        self.slots: dict[int, Resident] = {}
        self.kv: dict[tuple[int, int], tuple[int, int]] = {}
        self.version = 0
        self.scripted: dict[tuple[int, int], int] = {}
        self.sampled: dict[tuple[int, int], list[int]] = {}
        self.rows_of: dict[int, int] = {}
        self.serial = 1_000_000
        if predecessor is not None:
            self.scripted, self.sampled = predecessor.scripted, predecessor.sampled
            self.serial = predecessor.serial

    def run(self, batch: ExactBatch, incarnation: int) -> StepResult:
        """Compute one step and say what it sampled."""
        self.version += 1
        assert batch.blocks.version == self.version == batch.step + 1
        self._move(batch)
        queries = ints(batch.query_start_loc)
        assert queries[-1] <= self.max_batch_tokens
        out: list[tuple[int, int, int]] = []
        rows = zip(
            ints(batch.slots).tolist(),
            ints(batch.generations).tolist(),
            (queries[1:] - queries[:-1]).tolist(),
            batch.seq_lens.exact().tolist(),
            ints(batch.samples).tolist(),
            strict=True,
        )
        for row, (slot, generation, query, length, samples) in enumerate(rows):
            resident = self.slots[slot]
            assert resident.generation == generation
            assert query >= 1, "a row without a query token"
            self.rows_of[resident.request] = self.rows_of.get(resident.request, 0) + 1
            assert length == resident.computed + query, "the length is not the device's own"
            assert query == 1 or row >= batch.num_decodes, "a decode row has one query token"
            self._compute(resident, length)
            assert samples == (length == len(resident.tokens))
            if samples:
                token = self._sample(resident)
                out.append((slot, generation, token))
        return StepResult(
            incarnation=incarnation,
            epoch=batch.epoch,
            step=batch.step,
            slots=column(slot for slot, _, _ in out),
            generations=column(generation for _, generation, _ in out),
            token_counts=column(1 for _ in out),
            token_ids=column(token for _, _, token in out),
            drafts_run=column(0 for _ in out),
        )

    def _move(self, batch: ExactBatch) -> None:
        for slot in ints(batch.closed).tolist():
            del self.slots[slot]
        for new in batch.opened:
            assert new.slot not in self.slots
            resident = Resident(new.request, new.generation, ints(new.token_ids).tolist())
            resident.computed = new.cached_len
            self.slots[new.slot] = resident
        blocks = iter(ints(batch.blocks.blocks).tolist())
        for slot, offset, count in zip(
            ints(batch.blocks.slots).tolist(),
            ints(batch.blocks.offsets).tolist(),
            ints(batch.blocks.counts).tolist(),
            strict=True,
        ):
            table = self.slots[slot].table
            assert offset == len(table), "a delta leaves a hole or overwrites"
            table.extend(next(blocks) for _ in range(count))

    def _compute(self, resident: Resident, length: int) -> None:
        for position in range(resident.computed, length):
            place = self._place(resident, position)
            self.kv[place] = (resident.tokens[position], position)
        resident.computed = length
        for position in range(length):
            entry = self.kv.get(self._place(resident, position))
            assert entry == (resident.tokens[position], position), "the KV of another token"

    def _place(self, resident: Resident, position: int) -> tuple[int, int]:
        return resident.table[position // self.block_size], position % self.block_size

    def _sample(self, resident: Resident) -> int:
        position = len(resident.tokens)
        self.serial += 1
        token = self.scripted.get((resident.request, position), self.serial)
        resident.tokens.append(token)
        self.sampled.setdefault((resident.request, position), []).append(token)
        return token
