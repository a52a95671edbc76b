"""Sampling in Triton chooses the tokens that its spec chooses: the same noise, the same borders."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sampling_rows import BROKEN, VOCAB, broken, logits_of, mixed_rows
from torch import Tensor

from optimist.kernels.sampling import NO_TOKEN, Rows, cpu, reference
from optimist.kernels.sampling import triton as triton_sampling
from optimist.kernels.sampling.triton import distribution, greedy, sample
from optimist.kernels.sync_check import checked_step


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_sampling, "BLOCK", 16)


def on(device: str, value: Any) -> Any:
    """The same rows with their tensors on a device."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, tuple):
        moved = [on(device, part) for part in value]
        return type(value)(*moved) if hasattr(value, "_fields") else tuple(moved)
    return value


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(2))
def test_mixed_parameters_equal_the_spec(seed: int, dtype: torch.dtype, device: str) -> None:
    logits, rows = logits_of(24, seed).to(dtype), mixed_rows(24, seed)
    want = reference.sample(logits.clone(), rows)
    got = sample(logits.to(device), on(device, rows))
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("seed", range(2))
def test_distributions_equal_the_spec(seed: int, device: str) -> None:
    logits, rows = logits_of(24, seed), mixed_rows(24, seed)
    want = reference.distribution(logits.clone(), rows)
    got = distribution(logits.to(device), on(device, rows))
    torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-6)
    assert torch.equal(got.cpu() == 0, want == 0)


def test_without_a_temperature_every_row_is_greedy(device: str) -> None:
    logits, rows = logits_of(9, 3), mixed_rows(9, 3)._replace(temperature=None)
    want = reference.sample(logits.clone(), rows).tolist()
    assert sample(logits.clone().to(device), on(device, rows)).tolist() == want
    spread = distribution(logits.to(device), on(device, rows))
    assert spread.argmax(-1).tolist() == want
    assert spread.sum(-1).eq(1).all()


@pytest.mark.parametrize("vocab", [7, 40, 100])
def test_of_equals_the_lowest_id_is_chosen(vocab: int, device: str) -> None:
    logits = torch.zeros(3, vocab, device=device)
    for row, equal in enumerate(([vocab - 1], [vocab // 2, vocab - 1], [2, vocab // 3, vocab - 2])):
        logits[row, equal] = 5.0
    assert greedy(logits).tolist() == [vocab - 1, vocab // 2, 2]


def test_equals_at_the_border_of_a_filter_are_kept_together(device: str) -> None:
    logits = torch.tensor([[1.0, 0.0, 0.0, 0.0, -5.0]]).repeat(2, 1)
    rows = Rows(
        torch.ones(2),
        torch.zeros(2).long(),
        torch.zeros(2).long(),
        top_k=torch.tensor([2, 0], dtype=torch.int32),
        max_top_k=2,
        top_p=torch.tensor([1.0, 0.6]),
    )
    kept = distribution(logits.to(device), on(device, rows)) > 0
    assert kept.tolist() == [[True, True, True, True, False]] * 2


def test_no_rows_are_no_tokens(device: str) -> None:
    empty = torch.zeros(0, VOCAB, device=device)
    rows = Rows(torch.zeros(0), torch.zeros(0).long(), torch.zeros(0).long())
    assert greedy(empty).shape == sample(empty, on(device, rows)).shape == (0,)
    assert distribution(empty, on(device, rows)).shape == (0, VOCAB)


def test_a_large_vocabulary_draws_as_the_torch_version_does(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_sampling, "BLOCK", 2048)
    logits = torch.randn(6, 20_000, generator=torch.Generator().manual_seed(1)) * 2
    heat = torch.tensor([1.0, 0.7, 1.5, 1.0, 0.0, 1.0])
    rows = Rows(heat, torch.arange(6) * 77, torch.arange(6))
    want = cpu.sample(logits.clone(), rows)
    assert sample(logits.to(device), on(device, rows)).tolist() == want.tolist()


def test_nothing_is_read_on_the_host(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    logits, rows = logits_of(3).to(device), on(device, mixed_rows(3, 1))
    with checked_step():
        sample(logits, rows)
        distribution(logits, rows)
        greedy(logits)


@pytest.mark.parametrize("heat", [None, 0.0, 1.0])
def test_a_row_without_a_likeliest_token_chooses_none(heat: float | None, device: str) -> None:
    logits = broken()
    rows = mixed_rows(len(logits), 2)._replace(edits=(), penalties=None)
    temperature = None if heat is None else torch.full((len(logits),), heat)
    rows = rows._replace(temperature=temperature)
    want = reference.sample(logits, rows).tolist()
    assert [token == NO_TOKEN for token in want] == [True] * BROKEN + [False] * 2
    assert sample(logits.clone().to(device), on(device, rows)).tolist() == want
    assert (greedy(logits.to(device))[:BROKEN] == NO_TOKEN).all()
    spread = distribution(logits.clone().to(device), on(device, rows)).cpu()
    torch.testing.assert_close(spread, reference.distribution(logits, rows), equal_nan=True)
