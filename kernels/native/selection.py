"""Token selection by itself, for tests and benchmarks: numpy in, numpy out."""

from __future__ import annotations

from ctypes import byref, c_int64
from typing import NamedTuple

import numpy as np

from optimist.kernels.native.device import as_floats, as_ints, choice_view
from optimist.kernels.native.library import instruction_set, library
from optimist.kernels.native.shapes import Choice, Floats, Ints, Scores


class Text(NamedTuple):
    """What a row has said. position: of the token that comes. emitted: tokens behind its prompt.

    ids, counts: its distinct tokens, the prompt's too, and how often each was emitted, [N].
    """

    position: int
    emitted: int
    ids: Ints
    counts: Ints


class Selected(NamedTuple):
    """id: what is chosen, below 0 where nothing can be. likely: the probability of the token that was asked for, 0
    at a temperature of 0.
    """

    id: int
    likely: float


def choose(
    logits: Floats, choice: Choice, text: Text, *, asked: int = 0, without: int = -1, isa: str = ""
) -> Selected:
    """A token of logits [V], with the noise of the choice's seed. without: a token that it may not be."""
    likely = np.zeros(1, np.float32)
    found = library().native_op_choose(
        *(_name(isa), logits.size, as_floats(logits), byref(choice_view(choice))),
        *(text.position, text.emitted, text.ids.size, as_ints(text.ids), as_ints(text.counts)),
        *(choice.seed, without, asked, as_floats(likely)),
    )
    return Selected(found, float(likely[0]))


def report(logits: Floats, token: int, alternatives: int, *, isa: str = "") -> Scores:
    """How likely a token is among logits [V], its rank, and the likeliest ones: one place."""
    found = Scores(
        np.empty(1, np.float32),
        np.empty(1, np.int32),
        np.zeros((1, alternatives), np.int32),
        np.zeros((1, alternatives), np.float32),
    )
    library().native_op_report(
        *(_name(isa), logits.size, as_floats(logits), token, alternatives),
        *(as_floats(found.logprobs), as_ints(found.ranks)),
        *(as_ints(found.top_ids), as_floats(found.top_values)),
    )
    return found


class Verdict(NamedTuple):
    """number: in (0, 1), decides about a draft. residual: the seed of what is drawn in place of a rejected one."""

    number: float
    residual: int


def verdict(seed: int, begin: int, position: int, *, isa: str = "") -> Verdict:
    """Of the draft at a position, in the round that begins at another."""
    residual = c_int64()
    number = library().native_op_verdict(_name(isa), seed, begin, position, byref(residual))
    return Verdict(number, residual.value)


def _name(isa: str) -> bytes:
    return instruction_set(isa).encode()
