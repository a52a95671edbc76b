"""How likely the tokens of a prompt were, chunk by chunk, against the text computed anew for each token."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import native_toy
import numpy as np
import pytest
import toy_device
from numpy.typing import NDArray

from optimist.actors.worker.base import Executor, Outcome
from optimist.messages.base import floats, ints
from optimist.messages.slots import Sampling
from optimist.testing.hand import Hand, Row

PROMPT = [5, 60, 7, 81, 9, 10, 11, 60, 60]


class Oracle(Protocol):
    def logits(self, tokens: list[int], /) -> NDArray[Any]: ...


class Told(NamedTuple):
    first: int
    chosen: list[float]
    ranks: list[int]
    tops: list[list[int]]


def made(kind: str) -> tuple[Executor, Oracle, float]:
    if kind == "torch":
        return toy_device.executor(), toy_device.NEXT_TOKEN, 1e-6
    return native_toy.executor(), native_toy.NextToken(), 2e-5


def told(outcome: Outcome) -> dict[int, Told]:
    """By slot."""
    scores, found = outcome.prompt, {}
    assert scores is not None
    at = top = 0
    values = scores.logprobs
    for slot, first, count in zip(
        *(ints(c).tolist() for c in (scores.slots, scores.firsts, scores.counts)), strict=True
    ):
        tops = []
        for many in ints(values.counts)[at : at + count].tolist():
            tops.append(ints(values.top_ids)[top : top + many].tolist())
            top += many
        chosen, ranks = (
            v[at : at + count].tolist() for v in (floats(values.chosen), ints(values.ranks))
        )
        found[slot] = Told(first, chosen, ranks, tops)
        at += count
    return found


def wanted(oracle: Oracle, first: int, last: int, most: int) -> Told:
    """Of the tokens of the prompt from `first` to before `last`, by definition."""
    chosen, ranks, tops = [], [], []
    for at in range(first, last):
        logits = np.asarray(oracle.logits(PROMPT[:at]), np.float64)
        values = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        order = np.argsort(-values, kind="stable")
        chosen.append(float(values[PROMPT[at]]))
        ranks.append(int((order == PROMPT[at]).argmax()))
        tops.append(order[:most].tolist())
    return Told(first, chosen, ranks, tops)


@pytest.mark.parametrize("kind", ["torch", "native"])
def test_each_chunk_tells_the_tokens_behind_its_own(kind: str) -> None:
    executor, oracle, tolerance = made(kind)
    hand = Hand(executor)
    asks = Sampling(temperature=1.0, seed=1, top_k=1, prompt_logprobs=2)
    hand.open(0, PROMPT, [0, 1, 2], sampling=asks)
    hand.open(
        1,
        PROMPT,
        [3, 4, 5],
        prompt_len=4,
        sampling=Sampling(temperature=0, seed=0, prompt_logprobs=0),
    )
    hand.open(2, PROMPT, [6, 7, 8])
    steps = (
        [Row(0, 1), Row(2, 9), Row(1, 2)],
        [Row(2, 1, decode=True), Row(1, 7), Row(0, 5)],
        [Row(0, 3)],
    )
    expected = (
        {0: (1, 2, 2), 1: (1, 3, 0)},
        {0: (2, 7, 2), 1: (3, 4, 0)},
        {0: (7, 9, 2)},
    )
    for rows, spans in zip(steps, expected, strict=True):
        found = told(hand.submit(rows).wait())
        assert found.keys() == spans.keys()
        for slot, span in spans.items():
            right = wanted(oracle, *span)
            assert found[slot]._replace(chosen=[]) == right._replace(chosen=[])
            np.testing.assert_allclose(found[slot].chosen, right.chosen, atol=tolerance)
    assert hand.submit([Row(0, 1, decode=True)]).wait().prompt is None
