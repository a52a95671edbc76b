"""Choosing tokens: the batched form against the row-by-row spec, and both against probability."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from sampling_rows import BROKEN, VOCAB, broken, logits_of, mixed_rows
from torch import Tensor

from optimist.kernels.sampling import (
    NO_TOKEN,
    Edits,
    Rows,
    distribution,
    greedy,
    gumbel,
    reference,
    sample,
)
from optimist.kernels.sync_check import checked_step


@pytest.mark.parametrize("seed", range(6))
def test_mixed_parameters_equal_the_spec(seed: int) -> None:
    logits, rows = logits_of(50, seed), mixed_rows(50, seed)
    want = reference.sample(logits, rows)
    assert sample(logits.clone(), rows).tolist() == want.tolist()


@pytest.mark.parametrize("part", ["penalties", "edits", "top_k", "top_p", "min_p", "temperature"])
def test_each_part_alone_equals_the_spec(part: str) -> None:
    logits, rows = logits_of(60, 9), mixed_rows(60, 9)
    if part != "temperature":
        rows = rows._replace(temperature=torch.ones(60))
    off: dict[str, Any] = {
        "penalties": None,
        "edits": (),
        "top_k": None,
        "top_p": None,
        "min_p": None,
    }
    off.pop(part, None)
    rows = rows._replace(**off)
    want = reference.sample(logits, rows)
    assert sample(logits.clone(), rows).tolist() == want.tolist()
    if part != "temperature":
        without: dict[str, Any] = {part: () if part == "edits" else None}
        plain = rows._replace(**without)
        assert sample(logits.clone(), plain).tolist() != want.tolist()


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    logits, rows = logits_of(20, 3), mixed_rows(20, 3)._replace(edits=(), penalties=None)
    together = sample(logits.clone(), rows)
    for row in range(20):
        part: list[Any] = [v[row : row + 1] if isinstance(v, Tensor) else v for v in rows]
        alone = Rows(*part)
        assert sample(logits[row : row + 1].clone(), alone)[0] == together[row]


def test_no_rows_are_no_tokens() -> None:
    empty = torch.zeros(0, VOCAB)
    assert greedy(empty).shape == (0,)
    rows = Rows(torch.zeros(0), torch.zeros(0).long(), torch.zeros(0).long())
    assert sample(empty, rows).shape == (0,)


@pytest.mark.parametrize("vocab", [7, 1000, 49152])
def test_of_equals_the_lowest_id_is_chosen(vocab: int) -> None:
    logits = torch.zeros(3, vocab)
    for row, equal in enumerate(([vocab - 1], [vocab // 2, vocab - 1], [2, vocab // 3, vocab - 2])):
        logits[row, equal] = 5.0
    assert greedy(logits).tolist() == [vocab - 1, vocab // 2, 2]
    rows = Rows(None, torch.zeros(3).long(), torch.zeros(3).long())
    assert sample(logits.clone(), rows).tolist() == [vocab - 1, vocab // 2, 2]


def test_a_tiny_temperature_is_greedy_and_finite() -> None:
    logits = logits_of(8, 4)
    rows = Rows(torch.full((8,), 1e-38), torch.arange(8), torch.arange(8))
    assert sample(logits.clone(), rows).tolist() == greedy(logits).tolist()


def test_forbidden_tokens_are_never_chosen() -> None:
    rows, logits = 200, torch.zeros(200, 5)
    banned = torch.tensor([0, 1, 3, 4])
    edits = Edits(
        torch.arange(rows).repeat_interleave(4), banned.repeat(rows), torch.tensor([-torch.inf])
    )
    edits = edits._replace(values=edits.values.expand(4 * rows))
    chosen = sample(
        logits, Rows(torch.ones(rows), torch.arange(rows), torch.zeros(rows).long(), edits=(edits,))
    )
    assert chosen.eq(2).all()


@pytest.mark.parametrize("seed", [0, 1, -1, 2**31, -(2**63), 2**63 - 1, 0x123456789ABC])
def test_noise_equals_the_spec(seed: int) -> None:
    positions = [0, 1, 17, 2**31 - 1]
    ids = torch.tensor([0, 1, 2, 255, 49151, 2**31 - 1], dtype=torch.int32)
    got = gumbel(torch.full((4,), seed), torch.tensor(positions), ids)
    for row, position in enumerate(positions):
        want = [reference.gumbel(seed, position, token) for token in ids.tolist()]
        torch.testing.assert_close(
            got[row].double(), torch.tensor(want).double(), rtol=1e-5, atol=1e-5
        )


def test_extreme_bits_give_finite_noise() -> None:
    smallest = (0.5 * 2.0**-31, 1 - 2.0**-24)
    for v in smallest:
        assert math.isfinite(-math.log(-math.log1p(-v)))
    noise = gumbel(torch.arange(64), torch.zeros(64).long(), torch.arange(4096, dtype=torch.int32))
    assert noise.isfinite().all()


def test_noise_is_gumbel_in_every_direction() -> None:
    ids = torch.arange(2000, dtype=torch.int32)
    seeds = gumbel(torch.arange(1000) * 2**20, torch.zeros(1000).long(), ids)
    places = gumbel(torch.zeros(1000).long(), torch.arange(1000), ids)
    for noise in (seeds, places):
        assert abs(noise.mean().item() - 0.5772) < 0.004
        assert abs(noise.var().item() - math.pi**2 / 6) < 0.02
        for shifted in (noise[1:], noise.roll(1, 1)[1:]):
            pair = torch.stack((noise[:-1].flatten(), shifted.flatten()))
            assert abs(torch.corrcoef(pair)[0, 1].item()) < 0.004


@pytest.mark.parametrize("temperature", [0.6, 1.0, 2.0])
def test_chosen_tokens_have_the_probability_of_the_softmax(temperature: float) -> None:
    draws, logits = 100_000, torch.tensor([2.0, 1.0, 0.0, -1.0, -4.0, 1.5])
    rows = Rows(torch.full((draws,), temperature), torch.arange(draws), torch.arange(draws) % 7)
    chosen = sample(logits.repeat(draws, 1), rows)
    want = torch.softmax(logits / temperature, 0) * draws
    got = torch.bincount(chosen, minlength=6)
    # Chi-square with 5 degrees of freedom exceeds 25 once in ten thousand.
    assert ((got - want).square() / want).sum() < 25


def test_a_filtered_softmax_is_renormalised() -> None:
    draws, logits = 50_000, torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0])
    rows = Rows(
        torch.ones(draws),
        torch.arange(draws),
        torch.full((draws,), 11),
        top_k=torch.full((draws,), 3, dtype=torch.int32),
        max_top_k=3,
        top_p=torch.full((draws,), 0.85),
    )
    got = torch.bincount(sample(logits.repeat(draws, 1), rows), minlength=5)
    # Of the three that top_k leaves, the likeliest two hold 0.86 of the mass.
    want = torch.softmax(logits[:2], 0) * draws
    assert got[2:].eq(0).all()
    assert ((got[:2] - want).square() / want).sum() < 15


def test_equals_at_the_border_of_a_filter_are_kept_together() -> None:
    draws, logits = 4000, torch.tensor([1.0, 0.0, 0.0, 0.0, -5.0])
    ones, at = torch.ones(draws), torch.arange(draws)
    filters: tuple[dict[str, Any], ...] = (
        {"top_k": torch.full((draws,), 2, dtype=torch.int32), "max_top_k": 2},
        {"top_p": torch.full((draws,), 0.6)},
    )
    for filtered in filters:
        rows = Rows(ones, at, at, **filtered)
        got = torch.bincount(sample(logits.repeat(draws, 1), rows), minlength=5)
        assert got[:4].min() > 300
        assert got[4] == 0


def test_nothing_is_read_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    logits, rows = logits_of(5), mixed_rows(5, 1)
    with checked_step():
        sample(logits, rows)
        greedy(logits)


@pytest.mark.parametrize("hot", [False, True])
def test_a_row_without_a_likeliest_token_chooses_none(hot: bool) -> None:
    logits = broken()
    rows = mixed_rows(len(logits), 2)._replace(edits=(), penalties=None)
    rows = rows._replace(temperature=torch.full((len(logits),), float(hot)))
    got = sample(logits.clone(), rows).tolist()
    assert got == reference.sample(logits, rows).tolist()
    assert [token == NO_TOKEN for token in got] == [True] * BROKEN + [False] * 2
    assert (greedy(logits)[:BROKEN] == NO_TOKEN).all()
    spread = distribution(logits.clone(), rows)
    assert spread.isnan().all(-1).tolist() == [True] * BROKEN + [False] * 2
    torch.testing.assert_close(spread, reference.distribution(logits, rows), equal_nan=True)
