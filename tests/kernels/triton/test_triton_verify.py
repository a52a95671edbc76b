"""Verification in Triton accepts what its spec accepts, and draws the token that it draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.kernels import verify
from optimist.kernels.sampling import ACCEPT, NO_TOKEN, PROPOSAL, RESIDUAL, sample
from optimist.kernels.sampling import Rows as SamplingRows
from optimist.kernels.verify import NO_DRAFT, Noise, Places, Verified, reference
from optimist.kernels.verify import triton as triton_verify
from optimist.kernels.verify.triton import block, compare, reject

VOCAB = 13
JUDGES = {"rejection": reject, "block": block}


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_verify, "BLOCK", 8)


def emitted(verified: Verified, places: Places) -> list[list[int]]:
    """The tokens of each row."""
    ids, accepted = verified.ids.tolist(), verified.accepted.tolist()
    return [ids[int(s) : int(s) + n + 1] for s, n in zip(places.starts, accepted, strict=False)]


def random_round(rows: int, seed: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Places, Noise]:
    """Distributions with zeros in them, sure rows, drafts that were drawn from the proposal."""
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(0, 5, (rows,), generator=generator)
    total = int(counts.sum()) + rows
    target, proposal = (_distributions(total, generator).to(dtype) for _ in range(2))
    same = torch.rand(total, 1, generator=generator) < 0.6
    proposal = torch.where(same, target, proposal)
    drafts = torch.multinomial(proposal, 1, generator=generator)[:, 0]
    ends = torch.cumsum(counts + 1, 0) - 1
    kept = torch.ones(total, dtype=torch.bool)
    kept[ends] = False
    proposal[ends] = torch.nan
    places = Places.of(counts.numpy(), drafts[kept])
    begin = torch.randint(1, 5000, (rows,), generator=generator)
    within = torch.arange(total) - (ends - counts)[places.row]
    seeds = torch.randint(-(2**62), 2**62, (rows,), generator=generator)
    return target, proposal, places, Noise(seeds[places.row], begin[places.row] + within)


def _distributions(total: int, generator: torch.Generator) -> Tensor:
    logits = 2 * torch.randn(total, VOCAB, generator=generator, dtype=torch.float64)
    hidden = torch.rand(total, VOCAB, generator=generator) < 0.3
    hidden[:, 4] = False
    spread = torch.softmax(logits.masked_fill(hidden, -torch.inf), -1)
    sure = torch.rand(total, 1, generator=generator) < 0.2
    top = torch.zeros_like(spread).scatter_(1, spread.argmax(-1, keepdim=True), 1.0)
    return torch.where(sure, top, spread)


def on(device: str, places: Places, noise: Noise) -> tuple[Places, Noise]:
    moved = {name: getattr(places, name).to(device) for name in ("row", "grid", "counts", "drafts")}
    return places._replace(**moved), Noise(*(part.to(device) for part in noise))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("certain", [True, False], ids=["certain", "drawn"])
@pytest.mark.parametrize("mode", JUDGES)
def test_a_judge_equals_the_spec(mode: str, certain: bool, dtype: torch.dtype, device: str) -> None:
    target, proposal, places, noise = random_round(80, 3, dtype)
    q = None if certain else proposal
    want = reference.verify(mode, target, q, places, noise)
    judged = JUDGES[mode](
        target.to(device), None if q is None else q.to(device), *on(device, places, noise)
    )
    assert judged.accepted.tolist() == want.accepted.tolist()
    assert emitted(judged, places) == emitted(want, places)
    assert 8 < int(want.accepted.sum()) < int(places.counts.sum()) - 8


def test_comparing_equals_the_spec(device: str) -> None:
    target, _, places, noise = random_round(40, 7, torch.float64)
    draws = sample(target.log(), SamplingRows(torch.ones(len(target)), *noise))
    drafts = torch.where(torch.arange(len(draws)) % 3 > 0, draws, places.drafts.clamp(min=0))
    places = places._replace(drafts=torch.where(places.drafts < 0, NO_DRAFT, drafts))
    want = reference.verify("sample", target, None, places, noise)
    got = compare(draws.to(device), on(device, places, noise)[0])
    assert emitted(got, places) == emitted(want, places)
    assert int(want.accepted.sum()) > 10


@pytest.mark.parametrize("drafts", [[], [[]], [[], []]], ids=str)
def test_rows_without_drafts(drafts: list[list[int]], device: str) -> None:
    rows = len(drafts)
    places = Places.of(np.zeros(rows, np.int32), torch.zeros(0, dtype=torch.int64))
    target = torch.softmax(torch.randn(rows, VOCAB), -1)
    noise = Noise(torch.arange(rows), torch.arange(rows) + 1)
    plain = sample(target.log(), SamplingRows(torch.ones(rows), *noise))
    there = on(device, places, noise)
    for judge in JUDGES.values():
        assert judge(target.to(device), None, *there).ids.tolist() == plain.tolist()
    assert compare(plain.to(device), there[0]).accepted.tolist() == [0] * rows


def test_uses_of_noise_have_branches_of_their_own() -> None:
    assert len({PROPOSAL, ACCEPT, RESIDUAL}) == 3
    assert (triton_verify.ACCEPT.value, triton_verify.RESIDUAL.value) == (ACCEPT, RESIDUAL)


@pytest.mark.parametrize("judges", [verify, triton_verify], ids=["torch", "triton"])
@pytest.mark.parametrize("mode", JUDGES)
@pytest.mark.parametrize("where", [0, 1, 2])
def test_what_is_not_a_number_is_not_accepted_and_yields_no_token(
    mode: str, where: int, judges: Any, device: str
) -> None:
    target = torch.full((6, VOCAB), 1 / VOCAB)
    proposal, drafts = target.clone(), torch.tensor([3, 5, 3, 5])
    target[where], proposal[3 + where % 2] = torch.nan, torch.nan
    places = Places.of(np.array([2, 2]), drafts)
    noise = Noise(torch.arange(6) // 3 + 11, torch.arange(6) % 3 + 4)
    want = reference.verify(mode, target, proposal, places, noise)
    judge = {"rejection": judges.reject, "block": judges.block}[mode]
    got = judge(target.to(device), proposal.to(device), *on(device, places, noise))
    got = Verified(*(part.cpu() for part in got))
    assert emitted(got, places) == emitted(want, places)
    first, second = emitted(got, places)
    assert (first[-1] == NO_TOKEN) == (got.accepted[0] == where)
    assert got.accepted[0] <= where and got.accepted[1] <= where % 2
    assert NO_TOKEN not in second
