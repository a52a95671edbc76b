"""Reported log-probabilities against a full sort."""

from __future__ import annotations

import pytest
import torch

from optimist.kernels.logprobs import CARD, logprobs
from optimist.kernels.sync_check import checked_step


@pytest.mark.parametrize("dtype", CARD.dtypes)
@pytest.mark.parametrize("alternatives", [0, 1, 5, 400])
@pytest.mark.parametrize("rows", [0, 1, 9])
def test_equals_the_spec(rows: int, alternatives: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(rows)
    logits = torch.randn(rows, 301, generator=generator).to(dtype) * 4
    ids = torch.randint(301, (rows,), generator=generator)
    got, want = logprobs(logits, ids, alternatives), CARD.reference(logits, ids, alternatives)
    CARD.assert_near(got.chosen, want.chosen)
    CARD.assert_near(got.top_values, want.top_values)
    assert got.ranks.tolist() == want.ranks.tolist()
    assert got.top_ids.tolist() == want.top_ids.tolist()


def test_equals_are_ranked_by_id() -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0]]).repeat(5, 1)
    got = logprobs(logits, torch.arange(5), 4)
    assert got.ranks.tolist() == [4, 0, 1, 3, 2]
    assert got.top_ids[0].tolist() == [1, 2, 4, 3]


def test_the_greedy_token_has_rank_0_and_heads_the_alternatives() -> None:
    logits = torch.randn(20, 1000, generator=torch.Generator().manual_seed(1)).bfloat16().float()
    ids = logits.argmax(-1)
    got = logprobs(logits, ids, 3)
    assert got.ranks.eq(0).all()
    assert torch.equal(got.top_values[:, 0], got.chosen)


def test_forbidden_tokens_have_no_probability() -> None:
    logits = torch.tensor([[0.0, -torch.inf, 0.0]])
    got = logprobs(logits, torch.tensor([1]), 3)
    assert got.chosen.item() == -torch.inf
    assert got.ranks.item() == 2


def test_nothing_is_read_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    logits = torch.randn(4, 50)
    with checked_step():
        logprobs(logits, logits.argmax(-1), 5)
