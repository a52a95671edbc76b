"""Which drafts are accepted: the batched forms against the row-by-row spec, and by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.kernels.sampling import Rows, sample
from optimist.kernels.sync_check import checked_step
from optimist.kernels.verify import (
    NO_DRAFT,
    Noise,
    Places,
    Verified,
    block,
    compare,
    reference,
    reject,
)

VOCAB = 13
Judge = Callable[[Tensor, Tensor | None, Places, Noise], Verified]
JUDGES: dict[str, Judge] = {"rejection": reject, "block": block}


def emitted(verified: Verified, places: Places) -> list[list[int]]:
    """The tokens of each row."""
    ids, accepted = verified.ids.tolist(), verified.accepted.tolist()
    return [ids[int(s) : int(s) + n + 1] for s, n in zip(places.starts, accepted, strict=False)]


def places_of(*drafts: list[int]) -> Places:
    counts = np.array([len(row) for row in drafts], np.int32)
    return Places.of(counts, torch.tensor([token for row in drafts for token in row]))


BY_HAND = {
    "all right": ([[1, 2, 3]], [[1, 2, 3, 9]], [[1, 2, 3, 9]]),
    "first wrong": ([[1, 2, 3]], [[5, 2, 3, 9]], [[5]]),
    "a right one behind a wrong one does not count": ([[1, 2, 3]], [[1, 6, 3, 9]], [[1, 6]]),
    "last wrong": ([[1, 2, 3]], [[1, 2, 0, 9]], [[1, 2, 0]]),
    "no drafts": ([[], []], [[4], [0]], [[4], [0]]),
    "rows of different length": (
        [[1], [], [7, 7, 7], [2, 0]],
        [[1, 8], [3], [7, 7, 6, 5], [2, 0, 0]],
        [[1, 8], [3], [7, 7, 6], [2, 0, 0]],
    ),
    "no rows": ([], [], []),
}


@pytest.mark.parametrize(("drafts", "draws", "want"), BY_HAND.values(), ids=BY_HAND)
def test_drafts_are_accepted_while_they_equal_the_draws(
    drafts: list[list[int]], draws: list[list[int]], want: list[list[int]]
) -> None:
    places = places_of(*drafts)
    flat = torch.tensor([token for row in draws for token in row], dtype=torch.int64)
    assert emitted(compare(flat, places), places) == want


def test_places_say_where_rows_sample() -> None:
    places = places_of([5, 6], [], [8])
    assert places.starts.tolist() == [0, 3, 4, 6]
    assert places.drafts.tolist() == [5, 6, NO_DRAFT, NO_DRAFT, 8, NO_DRAFT]
    assert places.row.tolist() == [0, 0, 0, 1, 2, 2]
    assert places.grid.tolist() == [[0, 1, 2], [3, 3, 3], [4, 5, 5]]


def random_round(
    rows: int, seed: int, *, certain: bool
) -> tuple[Tensor, Tensor | None, Places, Noise]:
    """Distributions with zeros in them, sure rows, drafts that were drawn from the proposal."""
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(0, 5, (rows,), generator=generator)
    total = int(counts.sum()) + rows

    def distributions() -> Tensor:
        logits = 2 * torch.randn(total, VOCAB, generator=generator, dtype=torch.float64)
        hidden = torch.rand(total, VOCAB, generator=generator) < 0.3
        hidden[:, 4] = False
        return torch.softmax(logits.masked_fill(hidden, -torch.inf), -1)

    target, proposal = distributions(), distributions()
    proposal = torch.where(torch.rand(total, 1, generator=generator) < 0.6, target, proposal)
    sure = torch.rand(total, 1, generator=generator) < 0.2
    for part in (target, proposal):
        top = torch.zeros_like(part).scatter_(1, part.argmax(-1, keepdim=True), 1.0)
        part.copy_(torch.where(sure, top, part))
    drafts = torch.multinomial(proposal, 1, generator=generator)[:, 0]
    ends = torch.cumsum(counts + 1, 0) - 1
    kept = torch.ones(total, dtype=torch.bool)
    kept[ends] = False
    places = Places.of(counts.numpy(), drafts[kept])
    begin = torch.randint(1, 5000, (rows,), generator=generator)
    within = torch.arange(total) - (ends - counts)[places.row]
    seeds = torch.randint(-(2**62), 2**62, (rows,), generator=generator)
    noise = Noise(seeds[places.row], begin[places.row] + within)
    return target, None if certain else proposal, places, noise


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("certain", [True, False], ids=["certain", "drawn"])
@pytest.mark.parametrize("mode", JUDGES)
def test_a_judge_equals_the_spec(mode: str, certain: bool, seed: int) -> None:
    target, proposal, places, noise = random_round(200, seed, certain=certain)
    want = reference.verify(mode, target, proposal, places, noise)
    got = JUDGES[mode](target, proposal, places, noise)
    assert got.accepted.tolist() == want.accepted.tolist()
    assert emitted(got, places) == emitted(want, places)
    assert 30 < int(got.accepted.sum()) < int(places.counts.sum()) - 30


def test_comparing_equals_the_spec() -> None:
    target, _, places, noise = random_round(100, 7, certain=True)
    rows = Rows(torch.ones(len(target)), noise.seed, noise.position)
    draws = sample(target.log(), rows)
    drafts = torch.where(torch.arange(len(draws)) % 3 > 0, draws, places.drafts.clamp(min=0))
    places = places._replace(drafts=torch.where(places.drafts < 0, NO_DRAFT, drafts))
    want = reference.verify("sample", target, None, places, noise)
    got = compare(draws, places)
    assert emitted(got, places) == emitted(want, places)
    assert int(got.accepted.sum()) > 20


@pytest.mark.parametrize("judge", JUDGES.values(), ids=JUDGES)
def test_without_drafts_a_row_chooses_as_ever(judge: Judge) -> None:
    target, _, _, _ = random_round(300, 1, certain=True)
    rows = len(target)
    noise = Noise(torch.arange(rows), torch.arange(rows) * 3 + 1)
    places = Places.of(np.zeros(rows, np.int32), torch.zeros(0, dtype=torch.int64))
    plain = sample(target.log(), Rows(torch.ones(rows), *noise))
    assert judge(target, None, places, noise).ids.tolist() == plain.tolist()


@pytest.mark.parametrize("judge", JUDGES.values(), ids=JUDGES)
def test_a_proposal_that_is_the_target_is_accepted_whole(judge: Judge) -> None:
    target, _, places, noise = random_round(300, 2, certain=True)
    drafts = torch.multinomial(target, 1, generator=torch.Generator().manual_seed(5))[:, 0]
    places = places._replace(drafts=torch.where(places.drafts < 0, NO_DRAFT, drafts))
    verified = judge(target, target, places, noise)
    assert verified.accepted.tolist() == places.counts.tolist()


@pytest.mark.parametrize("judge", JUDGES.values(), ids=JUDGES)
def test_a_draft_that_the_target_excludes_is_never_accepted(judge: Judge) -> None:
    target = torch.zeros(400, 5).index_fill_(1, torch.tensor([1, 3]), 0.5)
    places = Places.of(np.full(200, 1), torch.arange(200) % 2 * 2)
    noise = Noise(torch.arange(400) // 2, torch.arange(400) % 2 + 9)
    verified = judge(target, None, places, noise)
    assert not verified.accepted.any()
    assert set(verified.ids[::2].tolist()) == {1, 3}


@pytest.mark.parametrize("certain", [True, False], ids=["certain", "drawn"])
def test_greedy_rows_accept_exactly_the_likeliest(certain: bool) -> None:
    best = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])
    target = torch.zeros(8, VOCAB).scatter_(1, best[:, None], 1.0)
    places = places_of([3, 1, 4], [5, 8, 2])
    drawn = torch.zeros(8, VOCAB).scatter_(1, places.drafts.clamp(min=0)[:, None], 1.0)
    noise = Noise(torch.zeros(8).long(), torch.tensor([1, 2, 3, 4, 1, 2, 3, 4]))
    for judge in JUDGES.values():
        verified = judge(target, None if certain else drawn, places, noise)
        assert emitted(verified, places) == [[3, 1, 4, 1], [5, 9]]


def test_judging_together_accepts_more() -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.softmax(torch.randn(4, VOCAB, generator=generator), -1).repeat(20_000, 1)
    proposal = torch.softmax(torch.randn(4, VOCAB, generator=generator), -1).repeat(20_000, 1)
    drafts = torch.multinomial(proposal, 1, generator=generator).view(-1, 4)[:, :3]
    places = Places.of(np.full(20_000, 3), drafts.reshape(-1))
    noise = Noise(torch.arange(80_000) // 4, torch.arange(80_000) % 4 + 1)
    alone, together = (
        judge(target, proposal, places, noise).accepted.sum().item() for judge in JUDGES.values()
    )
    assert together > 1.03 * alone


def test_nothing_is_read_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    target, proposal, places, noise = random_round(20, 4, certain=False)
    counts = np.diff(places.starts) - 1
    ids = places.drafts[places.drafts >= 0]
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    with checked_step():
        places = Places.of(counts, ids)
        compare(places.drafts, places)
        for q in (None, proposal):
            reject(target, q, places, noise)
            block(target, q, places, noise)
