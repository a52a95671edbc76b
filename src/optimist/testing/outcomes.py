"""Puts the tokens that rows sampled into the form in which a device hands them over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.actors.worker.base import Outcome
from optimist.messages.base import Floats, column
from optimist.messages.results import Logprobs


class Sampled(NamedTuple):
    """One token of one row. logprobs: of itself, then of alternatives, best first; None: not asked."""

    slot: int
    generation: int
    token: int
    logprobs: list[tuple[int, float]] | None = None


def outcome_of(sampled: Sequence[Sampled]) -> Outcome:
    """The outcome of a step in which each of these rows sampled one token."""
    return Outcome(
        slots=_array(s.slot for s in sampled),
        generations=_array(s.generation for s in sampled),
        token_counts=np.ones(len(sampled), np.int32),
        token_ids=_array(s.token for s in sampled),
        drafts_run=np.zeros(len(sampled), np.int32),
        logprobs=logprobs_of([s.logprobs for s in sampled]),
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
