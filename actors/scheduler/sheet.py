"""A step while it is being planned, and the plan it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from optimist.actors.scheduler.epoch import Epoch, Flight
from optimist.actors.scheduler.request import Request
from optimist.actors.scheduler.slots import Ints, Rows
from optimist.messages.base import EMPTY, Column, ints
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.plans import ExactPlan, OptimisticPlan, Plan
from optimist.messages.slots import BlockDelta, OpenedSlot, PrefillRows

_NO_PREFILL = PrefillRows()
NO_ROWS: Rows = np.zeros(0, np.intp)
NO_INTS: Ints = np.zeros(0, np.int32)


class Sheet:
    """Rows, opened slots and new blocks of one step, as they are decided.

    decode: slots of the decode rows, [D]; drafts: of each of them, [D]; asked: as in Flight, [D];
    decode_lens: their tokens with KV after the step if every draft is right, [D].
    """

    def __init__(self) -> None:
        self.decode: Rows = NO_ROWS
        self.drafts: Ints = NO_INTS
        self.asked: Ints = NO_INTS
        self.decode_lens: Ints = NO_INTS
        self.opened: list[OpenedSlot] = []
        self._chunks: list[tuple[int, int, int, int]] = []
        self._delta: list[tuple[int, int, int]] = []
        self._blocks: list[int] = []

    @property
    def empty(self) -> bool:
        """Whether there is nothing to run."""
        return not (self.decode.size or self._chunks)

    @property
    def sampling(self) -> Rows:
        """Slots in which the step chooses a token, [S]: decode rows first."""
        new = [slot for slot, _, _, samples in self._chunks if samples]
        return np.concatenate([self.decode, np.array(new, np.intp)]) if new else self.decode

    def open(self, slot: int, request: Request, cached: int, blocks: list[int]) -> None:
        """A request moves into a slot."""
        self.opened.append(
            OpenedSlot(
                slot=slot,
                generation=request.generation,
                request=request.id,
                token_ids=request.tokens.tobytes(),
                prompt_len=request.prompt_len,
                cached_len=cached,
                sampling=request.choice,
                trace=request.trace,
            )
        )
        self.give(slot, 0, blocks)

    def give(self, slot: int, offset: int, blocks: list[int]) -> None:
        """A slot gets blocks, the first of them at this place of its table row."""
        self._delta.append((slot, offset, len(blocks)))
        self._blocks.extend(blocks)

    def chunk(self, slot: int, start: int, end: int, samples: bool) -> None:
        """A prefill row: these tokens are computed, and a new one is chosen or not."""
        self._chunks.append((slot, start, end, samples))

    def compose(self, epoch: Epoch, incarnation: int, *, optimistic: bool) -> Flight:
        """The plan and the record of it. Takes the epoch's next step and its closed slots.

        optimistic: the lengths of the decode rows are bounds, since drafts of steps in flight count in.
        """
        generation = epoch.slots.generation
        slots, _, ends, samples = chunks = _columns(self._chunks, 4)
        plan = self._plan(epoch, incarnation, self._prefill(chunks, generation), optimistic)
        epoch.closed.clear()
        epoch.next_step += 1
        rows = sampling = self.decode
        drafts, asked = self.drafts, self.asked
        names, generations = plan.decode_slots, plan.decode_generations
        if self._chunks:
            new = slots[samples == 1]
            rows, sampling = np.concatenate([rows, slots]), np.concatenate([sampling, new])
            none = np.zeros(len(new), np.int32)
            drafts, asked = np.concatenate([drafts, none]), np.concatenate([asked, none])
            names, generations = names + new.tobytes(), generations + generation[new].tobytes()
        return Flight(
            step=plan.step,
            plan=plan,
            slots=rows,
            prefill=slots.astype(np.intp),
            ends=ends,
            sampling=sampling,
            drafts=drafts,
            asked=asked,
            slots_column=names,
            generations_column=generations,
        )

    def _plan(self, epoch: Epoch, incarnation: int, prefill: PrefillRows, optimistic: bool) -> Plan:
        shared: dict[str, Any] = {
            "incarnation": incarnation,
            "epoch": epoch.number,
            "step": epoch.next_step,
            "opened": tuple(self.opened),
            "closed": _column(epoch.closed),
            "blocks": self._block_delta(epoch.next_step + 1),
            "prefill": prefill,
            "decode_slots": self.decode.astype("<i4").tobytes(),
            "decode_generations": epoch.slots.generation[self.decode].tobytes(),
            "draft_counts": self.drafts.tobytes(),
        }
        lens = self.decode_lens.tobytes()
        if optimistic:
            return OptimisticPlan(**shared, decode_bound=SeqLensUpperBound(lens))
        wanted = epoch.slots.wanted[np.concatenate([self.decode, ints(prefill.slots)])]
        return ExactPlan(
            **shared,
            decode_lens=ExactSeqLens(lens),
            drafts_wanted=wanted.tobytes() if wanted.any() else EMPTY,
        )

    def _prefill(self, chunks: Ints, generation: Ints) -> PrefillRows:
        if not self._chunks:
            return _NO_PREFILL
        slots, starts, ends, samples = chunks
        return PrefillRows(
            slots=slots.tobytes(),
            generations=generation[slots].tobytes(),
            starts=starts.tobytes(),
            seq_lens=ExactSeqLens(ends.tobytes()),
            samples=samples.tobytes(),
        )

    def _block_delta(self, version: int) -> BlockDelta:
        if not self._delta:
            return BlockDelta(version=version)
        slots, offsets, counts = _columns(self._delta, 3)
        return BlockDelta(
            version=version,
            slots=slots.tobytes(),
            offsets=offsets.tobytes(),
            counts=counts.tobytes(),
            blocks=_column(self._blocks),
        )


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> Ints:
    """Rows of equal width as columns, [width, N]."""
    if not rows:
        return np.zeros((width, 0), np.int32)
    return np.ascontiguousarray(np.array(rows, np.int32).T)


def _column(values: list[int]) -> Column:
    return np.array(values, "<i4").tobytes() if values else EMPTY
