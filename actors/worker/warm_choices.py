"""Choosing tokens for nobody at the start: each way of sampling and judging is a kernel of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np
import torch
from torch import Tensor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Progress
from optimist.actors.worker.torch_state import SlotState
from optimist.kernels.contract import Kernels
from optimist.kernels.sampling import Edits, Penalties, Rows
from optimist.kernels.verify import Noise, Places

WAYS = tuple(product((False, True), repeat=3))
"""of top-k, top-p and min-p, which rows of a step use: without any, each alone, and so on"""


def warm_choices(
    state: SlotState, vocab_size: int, config: WorkerConfig, progress: Progress
) -> None:
    """Enqueue each way in which a step of this engine may choose. Nothing is left of it."""
    kernels, verify, most_drafts = state.kernels, config.verify, config.most_drafts
    todo: list[Callable[[], object]] = [
        partial(_advance, state),
        partial(kernels.greedy, _logits(1, vocab_size, state.device)),
        *(partial(_sampled, kernels, vocab_size, way, state.device) for way in WAYS),
        *(partial(_compared, kernels, most, state.device) for most in _powers(most_drafts)),
    ]
    if most_drafts and verify in ("rejection", "block"):
        todo += [partial(_judged, kernels, verify, vocab_size, way, state.device) for way in WAYS]
    if config.proposer == "ngram-device":
        todo += [partial(_looked_up, state, config, most) for most in _sizes(most_drafts)]
    with torch.inference_mode():
        for done, enqueue in enumerate(todo):
            enqueue()
            progress("ways of sampling", done + 1, len(todo))


def _powers(most: int) -> Iterator[int]:
    """Numbers of drafts, up to the most: kernels have room for one more, to a power of two."""
    drafts = 0
    while drafts < most:
        yield drafts
        drafts = 2 * drafts + 1
    yield most


def _sizes(most: int) -> Iterator[int]:
    """Powers of two of drafts that are looked up, up to the one that holds the most."""
    drafts = 1
    while drafts < 2 * most:
        yield min(drafts, most)
        drafts *= 2


def _looked_up(state: SlotState, config: WorkerConfig, drafts: int) -> None:
    slots = torch.zeros(1, dtype=torch.int64, device=state.device)
    lengths = torch.ones(1, dtype=torch.int32, device=state.device)
    by = {"shortest": config.ngram_min, "longest": config.ngram_max}
    state.kernels.ngram(state.token_ids, slots, lengths, drafts, **by)


def _logits(rows: int, vocab_size: int, device: torch.device) -> Tensor:
    return torch.zeros((rows, vocab_size), device=device)


def _rows(vocab_size: int, way: tuple[bool, ...], device: torch.device) -> Rows:
    """One row that uses penalties, an edit and these filters."""
    one, zero = torch.ones(1, device=device), torch.zeros(1, dtype=torch.int64, device=device)
    counts = torch.zeros((1, vocab_size), dtype=torch.int32, device=device)
    top_k, top_p, min_p = way
    return Rows(
        temperature=one,
        seed=zero,
        position=zero,
        penalties=Penalties(counts, counts.to(torch.bool), one, one, one),
        edits=(Edits(zero, zero, one),),
        top_k=torch.ones_like(zero, dtype=torch.int32) if top_k else None,
        max_top_k=int(top_k),
        top_p=one if top_p else None,
        min_p=one if min_p else None,
    )


def _sampled(
    kernels: Kernels, vocab_size: int, way: tuple[bool, ...], device: torch.device
) -> None:
    kernels.sample(_logits(1, vocab_size, device), _rows(vocab_size, way, device))


def _places(drafts: int, device: torch.device) -> Places:
    ids = torch.zeros(drafts, dtype=torch.int64, device=device)
    return Places.of(np.array([drafts]), ids)


def _compared(kernels: Kernels, drafts: int, device: torch.device) -> None:
    places = _places(drafts, device)
    kernels.compare(torch.zeros_like(places.drafts), places)


def _judged(
    kernels: Kernels, verify: str, vocab_size: int, way: tuple[bool, ...], device: torch.device
) -> None:
    rows = _rows(vocab_size, way, device)._replace(penalties=None, edits=())
    target = kernels.distribution(_logits(2, vocab_size, device)[:1], rows).expand(2, -1)
    noise = torch.zeros(2, dtype=torch.int64, device=device)
    judge = kernels.reject if verify == "rejection" else kernels.block
    for proposal in (None, torch.zeros_like(target)):
        judge(target, proposal, _places(1, device), Noise(noise, noise))


def _advance(state: SlotState) -> None:
    """Slot 0, which nobody has, moves by nothing, and its first token is zero, as it was."""
    at = torch.zeros(1, dtype=torch.int64, device=state.device)
    few = at.to(torch.int32)
    state.kernels.advance(state.computed, state.token_ids, at, few, few, at, at, at)
