"""Whole engines with mixed requests in a batch: sampled tokens come as often as they should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from optimist.kernels.verify import Places, rejection
from optimist.testing.by_place import BONUS
from optimist.testing.chain import BOUND
from optimist.testing.distribution import KINDS, Kind, one_thread, sampled

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

REQUESTS = 200


@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_tokens_come_as_often_as_they_should_at_every_place(kind: Kind) -> None:
    with one_thread():
        made = await sampled(kind, REQUESTS)
    assert max(made.surprises()) < BOUND
    places = made.by_place()
    assert len(places) == kind.drafts + 1 and max(places.values()) < 1, places
    assert 0.05 * made.drafted < made.accepted < 0.95 * made.drafted


residual, of_drafts = rejection._residual, rejection._of_drafts  # noqa: SLF001


def not_taken(target: Tensor, proposal: Any, places: Places, at: Tensor, weight: Any) -> Tensor:
    return target.index_select(0, at)


def upside_down(target: Tensor, proposal: Any, places: Places) -> tuple[Tensor, Tensor]:
    p, q = of_drafts(target, proposal, places)
    return q, p


def of_the_draft(
    target: Tensor, proposal: Tensor, places: Places, at: Tensor, weight: Tensor
) -> Tensor:
    """Behind all drafts what the last of them was drawn from."""
    left = residual(target, proposal, places, at, weight)
    bonus = places.drafts.index_select(0, at) < 0
    last = proposal.index_select(0, (at - 1).clamp(min=0))
    return torch.where(bonus[:, None], last, left)


DRAFTS = {"draft 1", "draft 2", "draft 3"}
FAULTS: dict[str, tuple[str, Callable[..., Any], set[str]]] = {
    "residual not taken": ("_residual", not_taken, DRAFTS),
    "accepted with min(1, q / p)": ("_of_drafts", upside_down, DRAFTS),
    "bonus of the draft's distribution": ("_residual", of_the_draft, {BONUS}),
}


@pytest.mark.parametrize(("name", "fault", "where"), FAULTS.values(), ids=FAULTS)
async def test_a_fault_is_seen_at_the_places_that_it_concerns_and_at_no_other(
    name: str, fault: Callable[..., Any], where: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejection, name, fault)
    with one_thread():
        made = await sampled(Kind("rejection", "draft-model", 3), REQUESTS // 2)
    assert {place for place, share in made.by_place().items() if share > 1} == where
