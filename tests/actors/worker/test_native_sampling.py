"""Choosing tokens in the native library, against the spec of sampling on the same logits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from native_toy import TOY, NextToken, executor
from numpy.typing import NDArray

from optimist.kernels.logprobs import reference as logprobs_reference
from optimist.kernels.native.library import instruction_set
from optimist.kernels.sampling import Edits, Penalties, Rows, reference
from optimist.messages.base import column, floats, ints
from optimist.messages.slots import Sampling
from optimist.testing.hand import Hand, Row

CONFIG = replace(TOY, vocab_size=1003)
PROMPT = [int(i) for i in np.random.default_rng(3).integers(0, CONFIG.vocab_size, 12)]


def following() -> NextToken:
    """What a device of the set that computes says."""
    return _following(instruction_set())


@cache
def _following(_computes: str) -> NextToken:
    return NextToken(CONFIG)


def sampling(**changed: Any) -> Sampling:
    return Sampling(**{"temperature": 1.0, "seed": 5, **changed})


def biases(values: dict[int, float]) -> dict[str, bytes]:
    return {
        "bias_ids": column(values),
        "bias_values": np.array(list(values.values()), "<f4").tobytes(),
    }


def expected(tokens: list[int], prompt_len: int, by: Sampling) -> int:
    """The token that the spec chooses behind a text."""
    logits = torch.from_numpy(following().logits(tokens).copy())[None]
    vocab, emitted = CONFIG.vocab_size, tokens[prompt_len:]
    counts = torch.bincount(torch.tensor(emitted, dtype=torch.int64), minlength=vocab)[None]
    in_prompt = torch.zeros((1, vocab), dtype=torch.bool)
    in_prompt[0, tokens[:prompt_len]] = True
    biased, stops = ints(by.bias_ids).astype(np.int64), ints(by.stop_ids).astype(np.int64)
    edits = [Edits(_zeros(biased), torch.from_numpy(biased), _floats(by.bias_values))]
    if len(emitted) < by.min_tokens:
        forbidden = torch.full((len(stops),), -torch.inf)
        edits.append(Edits(_zeros(stops), torch.from_numpy(stops), forbidden))
    rows = Rows(
        temperature=torch.tensor([by.temperature]),
        seed=torch.tensor([by.seed]),
        position=torch.tensor([len(tokens)]),
        penalties=Penalties(
            counts.to(torch.int32),
            in_prompt,
            torch.tensor([by.presence_penalty]),
            torch.tensor([by.frequency_penalty]),
            torch.tensor([by.repetition_penalty]),
        ),
        edits=tuple(edits),
        top_k=torch.tensor([by.top_k], dtype=torch.int32),
        max_top_k=by.top_k,
        top_p=torch.tensor([by.top_p]),
        min_p=torch.tensor([by.min_p]),
    )
    return int(reference.sample(logits, rows)[0])


def _zeros(like: NDArray[np.int64]) -> torch.Tensor:
    return torch.zeros(len(like), dtype=torch.int64)


def _floats(values: bytes) -> torch.Tensor:
    return torch.from_numpy(floats(values).copy())


def run(by: Sampling, steps: int, prompt_len: int = len(PROMPT)) -> tuple[list[int], list[int]]:
    """Tokens that the executor chose in a few steps, and those that the spec would have."""
    hand = Hand(executor(CONFIG))
    hand.open(0, PROMPT, [0, 1], prompt_len=prompt_len, sampling=by)
    got = [hand.run([Row(0, len(PROMPT))])[0]]
    want, tokens = [expected(PROMPT, prompt_len, by)], list(PROMPT)
    for _ in range(steps - 1):
        tokens.append(got[-1])
        got.append(hand.run([Row(0, 1, decode=True)])[0])
        want.append(expected(tokens, prompt_len, by))
    return got, want


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "another seed": {"seed": -(2**62)},
    "cold": {"temperature": 0.05},
    "hot": {"temperature": 5.0},
    "top_k": {"temperature": 3.0, "top_k": 7},
    "top_k of one": {"temperature": 3.0, "top_k": 1},
    "top_k beyond the vocabulary": {"top_k": 5000},
    "top_p": {"temperature": 2.0, "top_p": 0.7},
    "little top_p": {"temperature": 2.0, "top_p": 0.01},
    "min_p": {"temperature": 2.0, "min_p": 0.2},
    "min_p of one": {"temperature": 4.0, "min_p": 1.0},
    "all filters": {"temperature": 3.0, "top_k": 40, "top_p": 0.8, "min_p": 0.02},
    "presence": {"presence_penalty": 1.5},
    "frequency": {"temperature": 0.7, "frequency_penalty": 0.9},
    "negative frequency": {"temperature": 0.7, "frequency_penalty": -1.5},
    "repetition": {"temperature": 0.5, "repetition_penalty": 1.8},
    "all penalties, greedy": {
        "temperature": 0.0,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.5,
        "repetition_penalty": 1.3,
    },
    "min_tokens": {"min_tokens": 5, "stop_ids": column(range(0, 1003, 2))},
    "bias": biases({3: 9.0, 700: 8.0, 5: -100.0}),
}


@pytest.mark.parametrize("case", CASES)
def test_tokens_are_those_of_the_spec(case: str) -> None:
    got, want = run(sampling(**CASES[case]), 12)
    assert got == want


@pytest.mark.usefixtures("every_set")
@pytest.mark.parametrize("case", ["all filters", "repetition", "min_tokens", "bias"])
def test_so_they_are_in_every_set(case: str) -> None:
    got, want = run(sampling(**CASES[case]), 6)
    assert got == want


def test_seeds_and_positions_give_different_tokens() -> None:
    drawn = [run(sampling(temperature=4.0, seed=seed), 6)[0] for seed in range(4)]
    assert len({tuple(tokens) for tokens in drawn}) == 4
    assert all(len(set(tokens)) > 3 for tokens in drawn)


def test_filters_choose_otherwise_than_no_filter() -> None:
    plain = run(sampling(temperature=3.0), 8)[0]
    for filtered in ({"top_k": 7}, {"top_p": 0.3}, {"min_p": 0.3}):
        assert run(sampling(temperature=3.0, **filtered), 8)[0] != plain


@pytest.mark.parametrize("emitted", [1, 5])
def test_tokens_emitted_before_this_admission_count(emitted: int) -> None:
    by = sampling(
        temperature=0.0, frequency_penalty=3.0, min_tokens=emitted, stop_ids=column([1, 2])
    )
    got, want = run(by, 6, prompt_len=len(PROMPT) - emitted)
    assert got == want


def test_equals_go_to_the_lowest_id() -> None:
    hand = Hand(executor(CONFIG))
    equal = biases({900: 1e4, 17: 1e4, 400: 1e4})
    logits = following().logits(PROMPT)
    raised = [float(np.float32(logits[token] + np.float32(1e4))) for token in (17, 400, 900)]
    hand.open(0, PROMPT, [0], sampling=sampling(temperature=0.0, **equal))
    want = (17, 400, 900)[int(np.argmax(raised))]
    assert hand.run([Row(0, 12)]) == {0: want}


def test_a_sampled_row_does_not_depend_on_its_neighbours() -> None:
    by = [sampling(temperature=0.5 + slot, seed=slot, top_p=0.9) for slot in range(6)]
    alone = [run(each, 5)[0] for each in by]
    hand = Hand(executor(CONFIG, threads=2))
    for slot, each in enumerate(by):
        hand.open(slot, PROMPT, [2 * slot, 2 * slot + 1], sampling=each)
    steps = [hand.run([Row(slot, 12) for slot in range(6)])]
    steps += [hand.run([Row(slot, 1, decode=True) for slot in range(6)]) for _ in range(4)]
    assert [[step[slot] for step in steps] for slot in range(6)] == alone


@pytest.mark.usefixtures("every_set")
def test_logprobs_are_of_the_raw_distribution() -> None:
    hand = Hand(executor(CONFIG))
    hand.open(0, PROMPT, [9])
    hot = sampling(temperature=3.0, seed=4, logprobs=5, top_k=50, **biases({8: 3.0}))
    hand.open(1, PROMPT, [0], sampling=hot)
    hand.open(2, PROMPT, [3], sampling=sampling(temperature=0.0, logprobs=0))
    outcome = hand.submit([Row(slot, 12) for slot in range(3)]).wait()
    reported = outcome.logprobs
    assert reported is not None
    assert ints(reported.tokens).tolist() == [1, 2]
    assert ints(reported.counts).tolist() == [5, 0]
    logits = torch.from_numpy(following().logits(PROMPT).copy())[None].repeat(2, 1)
    chosen = torch.from_numpy(outcome.token_ids[1:].astype(np.int64))
    want = logprobs_reference.logprobs(logits, chosen, 5)
    np.testing.assert_allclose(floats(reported.chosen), want.chosen, rtol=1e-5, atol=1e-5)
    assert ints(reported.ranks).tolist() == want.ranks.tolist()
    assert ints(reported.top_ids).tolist() == want.top_ids[0].tolist()
    np.testing.assert_allclose(floats(reported.top_values), want.top_values[0], atol=1e-5)
