"""Puts the tokens that rows sampled into the form in which a device hands them over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.actors.worker.base import Outcome
from optimist.messages.base import Floats, column
from optimist.messages.results import Logprobs, PromptScores


class Sampled(NamedTuple):
    """New tokens of one row. row: its place in the step. drafted: drafts it was verified with.

    logprobs: for each token: of itself, then of alternatives, best first; None: not asked.
    """

    row: int
    slot: int
    generation: int
    tokens: list[int]
    drafted: int = 0
    logprobs: Sequence[list[tuple[int, float]] | None] = ()


def outcome_of(
    sampled: Sequence[Sampled], *, held: int | None = None, prompt: PromptScores | None = None
) -> Outcome:
    """The outcome of a step in which these rows sampled. held: drafts that the device has for each."""
    return Outcome(
        slots=_array(s.slot for s in sampled),
        generations=_array(s.generation for s in sampled),
        token_counts=_array(len(s.tokens) for s in sampled),
        token_ids=_array(token for s in sampled for token in s.tokens),
        drafts_run=_array(s.drafted for s in sampled),
        logprobs=logprobs_of([entry for s in sampled for entry in s.logprobs]),
        drafts_held=None if held is None else np.full(len(sampled), held, np.int32),
        prompt=prompt,
    )


def logprobs_of(tokens: Sequence[list[tuple[int, float]] | None]) -> Logprobs | None:
    """The message part for tokens in order, None where no token asked."""
    asked = [(i, entries) for i, entries in enumerate(tokens) if entries is not None]
    if not asked:
        return None
    tops = list(chain.from_iterable(entries[1:] for _, entries in asked))
    return Logprobs(
        tokens=column(i for i, _ in asked),
        chosen=_floats(entries[0][1] for _, entries in asked),
        ranks=column(0 for _ in asked),
        counts=column(len(entries) - 1 for _, entries in asked),
        top_ids=column(token for token, _ in tops),
        top_values=_floats(value for _, value in tops),
    )


def _array(values: Iterable[int]) -> NDArray[np.int32]:
    return np.fromiter(values, np.int32)


def _floats(values: Iterable[float]) -> Floats:
    return np.fromiter(values, "<f4").tobytes()
