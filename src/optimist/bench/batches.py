"""Batches to measure attention on, written like `8q1s1k_2q512s4k`, and made by the engine's own builder.

Parts are joined by `_`: how many rows (1 if it is left out), `q` query tokens of each, `s` tokens that each
row then has (its query if left out); `k` behind a number is times 1024. Rows of one query token behind
others decode; the others are chunks of prompts.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import torch

from optimist.actors.builder.apply import apply
from optimist.actors.worker.base import Limits
from optimist.actors.worker.told_rows import ToldRows
from optimist.actors.worker.torch_rows import rows_of
from optimist.actors.worker.torch_state import SlotState
from optimist.actors.worker.torch_step import lengths_told, step_input
from optimist.kernels.choice import TORCH
from optimist.kernels.kv_cache import allocate
from optimist.kernels.metadata import Metadata
from optimist.messages.base import column
from optimist.messages.batches import Batch
from optimist.messages.errors import ConfigError
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.plans import ExactPlan, OptimisticPlan, Plan
from optimist.messages.slots import BlockDelta, OpenedSlot, PrefillRows, Sampling

BLOCK = 16
"""tokens of a block"""

LOOSE = 16
"""tokens by which a bound may exceed the truth: two steps in flight, of 8 drafts that were all wrong"""

_PART = re.compile(r"(\d*)q(\d+)(k?)(?:s(\d+)(k?))?")


class Span(NamedTuple):
    """A row. query: tokens that are computed. length: tokens of the row behind the step."""

    query: int
    length: int

    @property
    def decodes(self) -> bool:
        """Whether it is a decode row."""
        return self.query == 1 and self.length > 1


def spans(text: str) -> list[Span]:
    """The rows that a text describes, decode rows first. Raises ConfigError naming the part that is wrong."""
    found = []
    for part in text.split("_"):
        match = _PART.fullmatch(part)
        if match is None:
            raise ConfigError(f"--batch: expected parts such as 8q1s1k or q512, got {part!r}")
        count, query = int(match[1] or 1), int(match[2]) * (1024 if match[3] else 1)
        length = query if match[4] is None else int(match[4]) * (1024 if match[5] else 1)
        if not (count and 0 < query <= length):
            raise ConfigError(
                f"--batch: expected rows, and of each a query no longer than the row, got {part!r}"
            )
        found += [Span(query, length)] * count
    return sorted(found, key=lambda span: not span.decodes)


def batch_of(rows: list[Span], loose: int = 0) -> Batch:
    """What the builder makes of a plan of these rows. Row i is in slot i, its blocks lie scattered.

    loose: tokens by which the bounds of decode rows exceed their lengths, in a plan that knows no more
    than bounds; 0 is a plan that knows lengths.
    """
    needed = np.array([-(-row.length // BLOCK) for row in rows])
    blocks = np.random.default_rng(0).permutation(needed.sum())
    slots, prefills = np.arange(len(rows)), [i for i, row in enumerate(rows) if not row.decodes]
    decodes = np.flatnonzero([row.decodes for row in rows])
    lengths = np.array([rows[i].length for i in decodes], np.int32)
    common: dict[str, Any] = {
        "incarnation": 1,
        "epoch": 1,
        "step": 0,
        "opened": tuple(_opened(slot, row) for slot, row in enumerate(rows)),
        "blocks": BlockDelta(
            version=1,
            slots=column(slots),
            offsets=column(slots * 0),
            counts=column(needed),
            blocks=column(blocks),
        ),
        "decode_slots": column(decodes),
        "decode_generations": column(decodes * 0),
        "draft_counts": column(decodes * 0),
        "prefill": PrefillRows(
            slots=column(prefills),
            generations=column([0] * len(prefills)),
            starts=column(rows[i].length - rows[i].query for i in prefills),
            seq_lens=ExactSeqLens.of([rows[i].length for i in prefills]),
            samples=column([1] * len(prefills)),
        ),
    }
    plan: Plan = (
        OptimisticPlan(decode_bound=SeqLensUpperBound.of(lengths + loose), **common)
        if loose
        else ExactPlan(decode_lens=ExactSeqLens.of(lengths), **common)
    )
    return apply(plan, block_size=BLOCK, incarnation=1)


def _opened(slot: int, row: Span) -> OpenedSlot:
    return OpenedSlot(
        slot=slot,
        generation=0,
        request=slot,
        token_ids=column([0] * row.length),
        prompt_len=row.length,
        cached_len=row.length - row.query,
        sampling=Sampling(temperature=0, seed=0),
    )


def metadata_of(batch: Batch, rows: list[Span], device: torch.device) -> Metadata:
    """The batch as the worker tells attention of it. device: where that attends."""
    longest = LOOSE + max(row.length for row in rows)
    blocks = sum(-(-row.length // BLOCK) for row in rows)
    limits = Limits(
        num_blocks=blocks,
        block_size=BLOCK,
        max_slots=len(rows),
        max_model_len=longest,
        max_batch_tokens=sum(row.query for row in rows),
        vocab_size=1,
    )
    state = SlotState(limits, allocate(1, 1, blocks, BLOCK, 1, torch.int8, device), (), TORCH)
    for opened in batch.opened:
        state.open_slot(opened)
    state.apply_blocks(batch.blocks)
    told = rows_of(batch, None, itself=False, vocab_size=1)
    known = ToldRows.of(told, lengths_told(batch, told), device)
    return step_input(batch, told, state, known).metadata
