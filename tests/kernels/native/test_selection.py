"""Choosing and reporting tokens, in every instruction set, against the specs of torch on the same logits."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import torch
from sampling_rows import VOCAB, broken, logits_of, mixed_rows

from optimist.kernels.logprobs import reference as logprobs_reference
from optimist.kernels.native.cards import CARDS
from optimist.kernels.native.device import choice_view
from optimist.kernels.native.library import here
from optimist.kernels.native.selection import Text, choose, report, verdict
from optimist.kernels.native.shapes import GREEDY, Choice, Floats
from optimist.kernels.sampling import ACCEPT, RESIDUAL, Edits, Rows, reference

SETS = pytest.mark.parametrize("isa", here())
ROWS = 24
EMPTY = Text(0, 0, np.zeros(0, np.int32), np.zeros(0, np.int32))


def one(rows: Rows, s: int) -> tuple[Choice, Text]:
    """A row as the library takes it."""
    penalties = rows.penalties
    assert penalties is not None
    known = (penalties.counts[s] > 0) | penalties.in_prompt[s]
    ids = known.nonzero().flatten().numpy().astype(np.int32)
    counts = penalties.counts[s].numpy()[ids].astype(np.int32)
    biases: dict[int, float] = {}
    for row, token, value in zip(*(part.tolist() for part in rows.edits[0]), strict=True):
        if row == s:
            biases[token] = biases.get(token, 0.0) + value
    fields: dict[str, Any] = {
        name: getattr(rows, name)[s].item()
        for name in ("seed", "temperature", "top_k", "top_p", "min_p")
    }
    choice = GREEDY._replace(
        **fields,
        presence=float(penalties.presence[s]),
        frequency=float(penalties.frequency[s]),
        repetition=float(penalties.repetition[s]),
        bias_ids=np.array(list(biases), np.int32),
        bias_values=np.array(list(biases.values()), np.float32),
    )
    return choice, Text(int(rows.position[s]), int(counts.sum()), ids, counts)


def given(seed: int) -> tuple[torch.Tensor, Rows]:
    """Rows of every parameter, with the edits that a request's biases make."""
    rows, logits = mixed_rows(ROWS, seed), logits_of(ROWS, seed)
    row, token, value = rows.edits[0]
    # A request has one bias a token.
    places = list(zip(row.tolist(), token.tolist(), strict=True))
    first = [i for i, place in enumerate(places) if place not in places[:i]]
    edits = Edits(row[first], token[first], value[first])
    return logits, rows._replace(edits=(edits,))


@SETS
@pytest.mark.parametrize("seed", range(3))
def test_tokens_are_those_of_the_spec(isa: str, seed: int) -> None:
    logits, rows = given(seed)
    want = reference.sample(logits.clone(), rows).tolist()
    got = [choose(logits[s].numpy(), *one(rows, s), isa=isa).id for s in range(ROWS)]
    assert got == want


@SETS
def test_probabilities_are_those_of_the_spec(isa: str) -> None:
    logits, rows = given(5)
    want = reference.distribution(logits.double(), rows)
    warm = [s for s in range(ROWS) if rows.temperature is not None and rows.temperature[s] > 0]
    assert warm
    for s in warm:
        got = [
            choose(logits[s].numpy(), *one(rows, s), asked=v, isa=isa).likely for v in range(VOCAB)
        ]
        np.testing.assert_allclose(got, want[s].numpy(), rtol=2e-5, atol=1e-7)


@SETS
def test_a_token_that_may_not_be_drawn_is_not(isa: str) -> None:
    logits = logits_of(1)[0].numpy()
    warm = GREEDY._replace(temperature=1.0, seed=3)
    drawn = choose(logits, warm, EMPTY, isa=isa).id
    assert choose(logits, warm, EMPTY, without=drawn, isa=isa).id not in (drawn, -1)
    # Where nothing else is left it is all there is.
    alone = warm._replace(top_k=1)
    best = int(logits.argmax())
    assert choose(logits, alone, EMPTY, without=best, isa=isa).id == best


@SETS
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_give_no_token(isa: str, temperature: float) -> None:
    rows = broken().numpy()
    choice = GREEDY._replace(temperature=temperature)
    found = [choose(row, choice, EMPTY, isa=isa).id for row in rows]
    want = reference.sample(
        broken(),
        Rows(
            temperature=torch.full((len(rows),), temperature),
            seed=torch.zeros(len(rows), dtype=torch.int64),
            position=torch.zeros(len(rows), dtype=torch.int64),
        ),
    )
    assert [max(id_, -1) for id_ in found] == [max(id_, -1) for id_ in want.tolist()]


@SETS
@pytest.mark.parametrize("vocab", [1, 15, 16, 17, 1003])
@pytest.mark.parametrize("alternatives", [0, 1, 5, 40])
def test_reports_are_those_of_the_spec(isa: str, vocab: int, alternatives: int) -> None:
    # Several are equal: the first of them comes first.
    logits = (logits_of(1, 4, vocab) * 2).round()
    card = next(card for card in CARDS if card.name == "report")
    for token in {0, vocab // 2, vocab - 1}:
        got = report(logits[0].numpy(), token, alternatives, isa=isa)
        want = logprobs_reference.logprobs(logits.double(), torch.tensor([token]), alternatives)
        top = min(alternatives, vocab)
        card.assert_near(got.logprobs, want[0].numpy())
        assert got.ranks.tolist() == want[1].tolist()
        card.assert_near(got.top_values[:, :top], want[2].numpy())
        assert got.top_ids[:, :top].tolist() == want[3].tolist()


@SETS
def test_verdicts_are_those_of_the_spec(isa: str) -> None:
    for seed, begin, position in ((5, 9, 11), (-(2**62), 0, 0), (2**62 + 7, 4095, 4100)):
        got = verdict(seed, begin, position, isa=isa)
        accept = reference.branch(seed, begin, ACCEPT)
        assert got.number == reference.uniform(accept, position)
        assert got.residual == reference.branch(seed, begin, RESIDUAL)


def test_every_set_chooses_the_same() -> None:
    logits, rows = given(8)
    found = {
        isa: [choose(logits[s].numpy(), *one(rows, s), isa=isa).id for s in range(ROWS)]
        for isa in here()
    }
    first, *others = found.values()
    assert all(other == first for other in others)


def values(count: int) -> Floats:
    return np.random.default_rng(count).standard_normal(count).astype(np.float32)


@SETS
@pytest.mark.parametrize("vocab", [1, 2, 31, 33, 1003])
def test_the_likeliest_is_the_first_of_equals(isa: str, vocab: int) -> None:
    logits = values(vocab)
    logits[vocab // 3] = logits[-1] = 9.0
    assert choose(logits, GREEDY, EMPTY, isa=isa).id == vocab // 3


def test_parameters_outlive_the_arrays_that_they_were_given_in() -> None:
    view = choice_view(GREEDY._replace(bias_ids=np.array([3, 5], np.int16)))
    ids, _, _ = view.keep
    assert ids.dtype == np.int32
    assert ctypes.addressof(view.bias_ids.contents) == ids.ctypes.data
