"""Whatever is drafted and however it is judged, texts have the probability that the target gives them.

The law of whole texts is compared, so the token behind every number of accepted drafts counts in it.
BOUND: chi-square lies five standard deviations above its mean once in a hundred thousand tests or so.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from verification import NARROW, by_place, excess, joint, run, toy

from optimist.kernels.verify import Places, rejection

SAMPLES = 100_000
FEWER = 40_000
BOUND = 5.0

WAYS = [
    (mode, drafts, certain)
    for mode in ("sample", "rejection", "block")
    for drafts in (1, 3)
    for certain in (True, False)
]


def name(value: object) -> str:
    return {True: "certain", False: "drawn"}[value] if isinstance(value, bool) else str(value)


@pytest.mark.parametrize(("mode", "drafts", "certain"), WAYS, ids=name)
def test_texts_have_the_probability_of_the_target(mode: str, drafts: int, certain: bool) -> None:
    one = toy(1, temperature=0.8)
    done = run(one, mode, SAMPLES, drafts, drafts + 1, certain=certain)
    assert excess(done.tokens, joint(one, drafts + 1)) < BOUND
    places = by_place(one, mode, done, drafts)
    assert len(places) == drafts + 1 and max(places.values()) < 1, places
    rate = done.accepted.double().mean().item() / drafts
    assert 0.1 < rate < 0.95


@pytest.mark.parametrize("mode", ["sample", "rejection", "block"])
@pytest.mark.parametrize("parameters", [{"top_k": 2}, {"top_p": 0.7}, NARROW], ids=str)
def test_filters_bind_drafts_too(mode: str, parameters: dict[str, Any]) -> None:
    one = toy(3, temperature=1.2, **parameters)
    done = run(one, mode, FEWER, 3, 4, certain=False)
    assert excess(done.tokens[:, :3], joint(one, 3)) < BOUND
    places = by_place(one, mode, done, 3)
    assert max(places.values()) < 1, places


@pytest.mark.parametrize("mode", ["rejection", "block"])
def test_the_next_round_is_as_faithful(mode: str) -> None:
    one = toy(4)
    done = run(one, mode, SAMPLES, 2, 5, certain=False)
    assert excess(done.tokens, joint(one, 5)) < BOUND


@pytest.mark.parametrize("mode", ["rejection", "block"])
def test_a_residual_that_forgets_the_proposal_is_noticed(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(target: Tensor, proposal: Any, places: Places, at: Tensor, weight: Any) -> Tensor:
        return target.index_select(0, at)

    monkeypatch.setattr(rejection, "_residual", forgetful)
    one = toy(1, temperature=0.8)
    done = run(one, mode, SAMPLES, 1, 2, certain=False)
    assert excess(done.tokens, joint(one, 2)) > 10 * BOUND
    drafted, bonus = by_place(one, mode, done, 1).values()
    assert drafted > 5 and bonus < 1


@pytest.mark.parametrize("mode", ["rejection", "block"])
def test_a_last_token_from_the_distribution_of_drafts_is_noticed_behind_them_alone(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    residual = rejection._residual  # noqa: SLF001

    def wrong(target: Tensor, proposal: Any, places: Places, at: Tensor, weight: Any) -> Tensor:
        left = residual(target, proposal, places, at, weight)
        bonus = places.drafts.index_select(0, at) < 0
        return torch.where(bonus[:, None], proposal.index_select(0, (at - 1).clamp(min=0)), left)

    monkeypatch.setattr(rejection, "_residual", wrong)
    one = toy(1, temperature=0.8)
    done = run(one, mode, FEWER, 3, 4, certain=False)
    *drafted, bonus = by_place(one, mode, done, 3).values()
    assert bonus > 5
    assert max(drafted if mode == "rejection" else drafted[:1]) < 1


def test_drafts_accepted_by_the_inverse_ratio_are_noticed_at_each_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_drafts = rejection._of_drafts  # noqa: SLF001
    monkeypatch.setattr(rejection, "_of_drafts", lambda *args: of_drafts(*args)[::-1])
    one = toy(1, temperature=0.8)
    done = run(one, "rejection", FEWER, 3, 4, certain=False)
    *drafted, bonus = by_place(one, "rejection", done, 3).values()
    assert min(drafted) > 3 and bonus < 1


def test_a_residual_that_shares_the_noise_of_the_proposal_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rejection, "RESIDUAL", 1)
    one = toy(1, temperature=0.8)
    done = run(one, "rejection", SAMPLES, 1, 2, certain=False)
    assert excess(done.tokens, joint(one, 2)) > 10 * BOUND


def test_coupled_drafts_are_accepted_nearly_as_often_as_can_be() -> None:
    one = toy(1, temperature=0.8)
    coupled = run(one, "sample", SAMPLES, 1, 1, certain=False).accepted.double().mean().item()
    p = one.probabilities()[0]
    q = one._replace(target=one.proposal).probabilities()[0]
    best = torch.minimum(p, q).sum().item()
    least = best / torch.maximum(p, q).sum().item()
    assert least - 0.005 < coupled <= best + 0.005
    judged = run(one, "rejection", SAMPLES, 1, 1, certain=False).accepted.double().mean().item()
    assert abs(judged - best) < 0.005
