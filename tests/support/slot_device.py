"""A device that knows only what messages say, and notices every length, slot or block that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from optimist.messages.base import column, ints
from optimist.messages.batches import Batch, ExactBatch
from optimist.messages.results import StepResult

REJECTED = -1
"""what the KV of a rejected draft is computed from"""

Script = Callable[[int, int], tuple[int, int]]
"""of a request and the room for drafts on its row: how many are run, and how many of these are right"""


class Verified(NamedTuple):
    """Tokens that a row sampled, and the drafts it was verified with."""

    tokens: list[int]
    drafts: int


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
    that was given back too early is seen when it is read. script: what becomes of drafts, by default they
    are all right. held: drafts that it says it has for each row, where a plan is exact.
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
        self.held = 0
        self.script: Script = lambda request, room: (room, room)
        if predecessor is not None:
            self.scripted, self.sampled = predecessor.scripted, predecessor.sampled
            self.serial, self.held = predecessor.serial, predecessor.held
            self.script = predecessor.script

    def run(self, batch: Batch, incarnation: int) -> StepResult:
        """Compute one step and say what it sampled."""
        self.version += 1
        assert batch.blocks.version == self.version == batch.step + 1
        self._move(batch)
        new: dict[int, Verified] = {}
        for row, slot in enumerate(ints(batch.slots).tolist()):
            resident = self.slots[slot]
            assert resident.generation == ints(batch.generations)[row]
            self.rows_of[resident.request] = self.rows_of.get(resident.request, 0) + 1
            if row < batch.num_decodes:
                new[slot] = self._decode(batch, row, resident)
            elif (token := self._prefill(batch, row, resident)) is not None:
                new[slot] = Verified([token], 0)
        return StepResult(
            incarnation=incarnation,
            epoch=batch.epoch,
            step=batch.step,
            slots=column(new),
            generations=column(self.slots[slot].generation for slot in new),
            token_counts=column(len(verified.tokens) for verified in new.values()),
            token_ids=column(token for verified in new.values() for token in verified.tokens),
            drafts_run=column(verified.drafts for verified in new.values()),
            drafts_held=column(self.held for _ in new) if isinstance(batch, ExactBatch) else b"",
        )

    def _decode(self, batch: Batch, row: int, resident: Resident) -> Verified:
        """Verify as many drafts as the script says of the row's room, of which so many are right."""
        room = int(ints(batch.draft_counts)[row])
        run, right = self.script(resident.request, room)
        assert right <= run <= room
        length = resident.computed + 1 + run
        assert length - run == len(resident.tokens), "a decode row is one token behind"
        if isinstance(batch, ExactBatch):
            assert run == room, "an exact plan counts the drafts that there are"
            assert batch.seq_lens.exact()[row] == length, "the length is not the device's own"
        else:
            bound = int(batch.bound.sizing_array(reader="tests.slot_device")[row])
            assert length + room - run <= bound, "a bound that is none"
            assert len(resident.table) * self.block_size >= bound, "a bound without blocks"
        tokens = [self._sample(resident) for _ in range(1 + right)]
        for position in range(resident.computed, length):
            kept = position <= resident.computed + right
            token = resident.tokens[position] if kept else REJECTED
            self.kv[self._place(resident, position)] = (token, position)
        self._advance(resident, resident.computed + 1 + right)
        return Verified(tokens, run)

    def _prefill(self, batch: Batch, row: int, resident: Resident) -> int | None:
        if isinstance(batch, ExactBatch):
            length, samples = int(batch.seq_lens.exact()[row]), int(ints(batch.samples)[row])
        else:
            place = row - batch.num_decodes
            length = int(batch.prefill.seq_lens.exact()[place])
            samples = int(ints(batch.prefill.samples)[place])
        assert length > resident.computed, "a row without a query token"
        for position in range(resident.computed, length):
            self.kv[self._place(resident, position)] = (resident.tokens[position], position)
        self._advance(resident, length)
        assert samples == (length == len(resident.tokens))
        return self._sample(resident) if samples else None

    def _move(self, batch: Batch) -> None:
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

    def _advance(self, resident: Resident, length: int) -> None:
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
