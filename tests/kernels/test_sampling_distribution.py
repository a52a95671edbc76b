"""The probabilities behind a sample, the border of top_p, and noise for other uses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from optimist.kernels.sampling import (
    ACCEPT,
    PROPOSAL,
    RESIDUAL,
    Rows,
    branch,
    distribution,
    reference,
    sample,
    uniform,
)
from optimist.kernels.sampling.nucleus import keep_nucleus_


def filtered(rows: int) -> Rows:
    """Temperatures and filters, on in some rows and off in others."""
    at = torch.arange(rows)
    return Rows(
        temperature=torch.tensor([0.0, 0.5, 1.0, 2.0])[at % 4],
        seed=at,
        position=at,
        top_k=torch.tensor([0, 3, 20], dtype=torch.int32)[at % 3],
        max_top_k=20,
        top_p=torch.tensor([1.0, 0.9, 0.4, 0.99, 0.05])[at % 5],
        min_p=torch.tensor([0.0, 0.1])[at % 2],
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distribution_equals_the_spec(dtype: torch.dtype) -> None:
    logits = torch.randn(60, 50, generator=torch.Generator().manual_seed(2)).to(dtype) * 2
    got, want = (
        distribution(logits.clone(), filtered(60)),
        reference.distribution(logits, filtered(60)),
    )
    torch.testing.assert_close(got, want)
    assert (got > 0).eq(want > 0).all()


def test_samples_follow_the_distribution() -> None:
    logits = torch.randn(1, 30, generator=torch.Generator().manual_seed(5)) * 2
    draws = 20_000
    rows = Rows(
        torch.full((draws,), 0.8),
        torch.arange(draws),
        torch.zeros(draws).long(),
        top_p=torch.full((draws,), 0.8),
    )
    first: list[Any] = [v[:1] if isinstance(v, torch.Tensor) else v for v in rows]
    want = distribution(logits.clone(), Rows(*first))[0]
    got = torch.bincount(sample(logits.repeat(draws, 1), rows), minlength=30) / draws
    assert 2 <= (want > 0).sum() <= 20
    assert got[want == 0].eq(0).all()
    assert (got - want).abs().max() < 0.015


@pytest.mark.parametrize("vocab", [1, 5, 5000])
@pytest.mark.parametrize("spread", [0.0, 0.01, 3.0, 60.0])
def test_the_nucleus_is_the_least_set_that_reaches_the_mass(vocab: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(vocab)
    p = torch.tensor([1e-6, 0.1, 0.5, 0.9, 0.999, 0.9999, 1.0])
    scores = torch.randn(7, vocab, generator=generator) * spread
    scores -= scores.amax(-1, keepdim=True)
    kept = scores.clone()
    keep_nucleus_(kept, p[:, None])
    mass = torch.softmax(scores.double(), -1)
    for row in range(7):
        inside = kept[row] > -torch.inf
        assert torch.equal(kept[row][inside], scores[row][inside])
        border = scores[row][inside].min()
        assert inside.eq(scores[row] >= border).all()
        assert mass[row][inside].sum() >= p[row] - 1e-5
        assert mass[row][scores[row] > border].sum() < p[row] + 1e-5
    assert kept[6].eq(scores[6]).all()


def test_equals_are_in_the_nucleus_together_or_not_at_all() -> None:
    scores = torch.tensor([[0.0, -1.0, -1.0, -1.0, -9.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    keep_nucleus_(scores, torch.tensor([[0.6], [0.01]]))
    assert (scores > -torch.inf).tolist() == [[True, True, True, True, False], [True] * 5]


def test_what_another_filter_dropped_stays_dropped() -> None:
    scores = torch.tensor([[0.0, -0.1, -torch.inf, -0.2]])
    keep_nucleus_(scores, torch.tensor([[0.9999999]]))
    assert (scores > -torch.inf).tolist() == [[True, True, False, True]]


def test_other_uses_of_the_noise_equal_the_spec() -> None:
    seeds, places = torch.tensor([0, 7, -(2**62), 2**63 - 1]), torch.tensor([0, 3, 900, 2**20])
    for which in (PROPOSAL, ACCEPT, RESIDUAL):
        want = [
            reference.branch(s, a, which)
            for s, a in zip(seeds.tolist(), places.tolist(), strict=True)
        ]
        assert branch(seeds, places, which).tolist() == want
    want_uniform = [
        reference.uniform(s, a) for s, a in zip(seeds.tolist(), places.tolist(), strict=True)
    ]
    assert uniform(seeds, places).tolist() == want_uniform


def test_other_uses_of_the_noise_are_independent_and_uniform() -> None:
    seeds, place = torch.arange(100_000), torch.zeros(100_000).long()
    drawn = [uniform(branch(seeds, place, which), place) for which in (PROPOSAL, ACCEPT, RESIDUAL)]
    drawn.append(uniform(seeds, place))
    together = torch.stack(drawn)
    assert (together.mean(-1) - 0.5).abs().max() < 0.005
    assert (together.var(-1) - 1 / 12).abs().max() < 0.002
    assert (torch.corrcoef(together) - torch.eye(4)).abs().max() < 0.015
