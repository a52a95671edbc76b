"""Sampling in the torch executor: parameters by slot, counts on the device, reports on the raw logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from toy_device import NEXT_TOKEN, OTHER, PROMPT, executor, greedy_from

from optimist.messages.base import column, floats, ints
from optimist.messages.slots import Sampling
from optimist.testing.hand import Hand, Row
from optimist.testing.torch_toy import TOY

pytestmark = pytest.mark.usefixtures("strict_torch")


def test_seeded_tokens_depend_on_prompt_parameters_and_seed_alone() -> None:
    sampling = Sampling(temperature=1.3, seed=12345)
    tokens = list(PROMPT)
    for _ in range(5):
        tokens.append(NEXT_TOKEN(tokens, len(PROMPT), sampling))
    hand = Hand(executor())
    hand.open(1, OTHER, [9, 8])
    hand.run([Row(1, 3)])
    hand.open(0, PROMPT, [0, 1, 2], sampling=sampling)
    drawn = [hand.run([Row(1, 1, decode=True), Row(0, 7)])[0]]
    drawn += [hand.run([Row(0, 1, decode=True), Row(1, 1, decode=True)])[0] for _ in range(2)]
    hand.close(0)
    hand.open(3, tokens[:10], [20, 21, 22], prompt_len=len(PROMPT), sampling=sampling)
    drawn += [hand.run([Row(3, 10)])[3], *hand.decode(3, 1)]
    assert drawn == tokens[7:]


def first_token(sampling: Sampling, prompt: list[int] = PROMPT, prompt_len: int = 7) -> int:
    hand = Hand(executor())
    hand.open(0, prompt, [0, 1, 2, 3, 4], prompt_len=prompt_len, sampling=sampling)
    return hand.run([Row(0, len(prompt))])[0]


def test_bias_adds_to_the_logits() -> None:
    logits = NEXT_TOKEN.logits(PROMPT)
    best, second = np.argsort(-logits)[:2]
    gap = float(logits[best] - logits[second])
    for bias, want in ((gap * 1.01, second), (gap * 0.99, best)):
        biased = Sampling(
            temperature=0,
            seed=0,
            bias_ids=column([second]),
            bias_values=np.array([bias], "<f4").tobytes(),
        )
        assert first_token(biased) == want


def test_stop_ids_wait_for_min_tokens() -> None:
    best, second = np.argsort(-NEXT_TOKEN.logits(PROMPT))[:2]
    for min_tokens, want in ((0, best), (1, second)):
        late = Sampling(temperature=0, seed=0, min_tokens=min_tokens, stop_ids=column([best, 3]))
        assert first_token(late) == want
    resumed = Sampling(temperature=0, seed=0, min_tokens=2, stop_ids=column([best]))
    assert first_token(resumed, PROMPT, prompt_len=5) == best
    assert first_token(resumed, PROMPT, prompt_len=6) == second


def penalised(tokens: list[int], prompt_len: int, **penalties: float) -> int:
    """The likeliest token after penalties, worked out from the definition."""
    logits = NEXT_TOKEN.logits(tokens).copy()
    emitted = np.bincount(tokens[prompt_len:], minlength=TOY.vocab_size)
    factor = penalties.get("repetition_penalty", 1.0)
    known = np.isin(np.arange(TOY.vocab_size), tokens)
    logits = np.where(known, np.where(logits > 0, logits / factor, logits * factor), logits)
    logits -= emitted * penalties.get("frequency_penalty", 0.0)
    logits -= (emitted > 0) * penalties.get("presence_penalty", 0.0)
    return int(logits.argmax())


@pytest.mark.parametrize(
    "penalties",
    [
        {"presence_penalty": 2.0},
        {"frequency_penalty": 1.5},
        {"frequency_penalty": -2.0},
        {"repetition_penalty": 3.0},
        {"repetition_penalty": 2.0, "presence_penalty": -1.0, "frequency_penalty": 0.5},
    ],
    ids=str,
)
def test_penalties_follow_what_was_emitted(penalties: dict[str, Any]) -> None:
    tokens = [*PROMPT, 60, 60, 7]
    sampling = Sampling(temperature=0, seed=0, **penalties)
    hand = Hand(executor())
    hand.open(1, OTHER, [9, 8, 7, 6])
    hand.run([Row(1, 3)])
    hand.open(0, tokens, [0, 1, 2, 3, 4, 5], prompt_len=7, sampling=sampling)
    got = [hand.run([Row(0, 10), Row(1, 1, decode=True)])[0]]
    neighbour = [hand.run([Row(0, 1, decode=True), Row(1, 1, decode=True)]) for _ in range(8)]
    got += [step[0] for step in neighbour]
    for _ in range(9):
        tokens.append(penalised(tokens, 7, **penalties))
    assert got == tokens[10:]
    assert [step[1] for step in neighbour] == greedy_from(OTHER, 10)[2:]
    plain = [*PROMPT, 60, 60, 7]
    assert got != greedy_from(plain, 9)


def test_counts_of_a_former_request_do_not_stay() -> None:
    sampling = Sampling(temperature=0, seed=0, frequency_penalty=2.0, repetition_penalty=2.0)
    hand = Hand(executor())
    hand.open(0, [*PROMPT, 60, 60], [0, 1, 2], prompt_len=7, sampling=sampling)
    hand.run([Row(0, 9)])
    hand.close(0)
    hand.open(0, OTHER, [3, 4], sampling=sampling)
    assert hand.run([Row(0, 3)])[0] == penalised(
        OTHER, 3, frequency_penalty=2.0, repetition_penalty=2.0
    )


def test_logprobs_are_of_the_raw_distribution() -> None:
    hand = Hand(executor())
    hand.open(0, OTHER, [9])
    hot = Sampling(temperature=2.0, seed=4, logprobs=2, top_k=5, min_tokens=3, stop_ids=column([1]))
    hand.open(1, PROMPT, [0, 1], sampling=hot)
    hand.open(2, PROMPT, [3, 4], sampling=Sampling(temperature=0, seed=0, logprobs=0))
    outcome = hand.submit([Row(0, 3), Row(1, 7), Row(2, 7)]).wait()
    reported = outcome.logprobs
    assert reported is not None
    assert ints(reported.tokens).tolist() == [1, 2]
    assert ints(reported.counts).tolist() == [2, 0]
    logits = NEXT_TOKEN.logits(PROMPT)
    values = logits - np.log(np.exp(logits).sum())
    order = np.argsort(-values)
    chosen = outcome.token_ids[1:]
    np.testing.assert_allclose(floats(reported.chosen), values[chosen], rtol=1e-5)
    assert ints(reported.ranks).tolist() == [int((order == t).argmax()) for t in chosen]
    assert ints(reported.top_ids).tolist() == order[:2].tolist()
    np.testing.assert_allclose(floats(reported.top_values), values[order[:2]], rtol=1e-5)


def test_nobody_asks_and_nothing_is_reported() -> None:
    hand = Hand(executor())
    hand.open(0, OTHER, [9])
    assert hand.submit([Row(0, 3)]).wait().logprobs is None
