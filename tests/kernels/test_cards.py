"""Every operator has a spec and a card, and a card speaks the common alphabet."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import optimist.kernels
from optimist.kernels.card import AXES, Card
from optimist.kernels.cards import CARDS

FOLDER = Path(optimist.kernels.__file__).parent


def test_every_folder_with_a_spec_has_a_card() -> None:
    folders = sorted(path.parent.name for path in FOLDER.glob("*/reference.py"))
    assert [card.name for card in CARDS] == folders


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_card_is_complete(card: Card) -> None:
    assert set(card.axes) <= set(AXES)
    assert card.reference.__module__ == f"optimist.kernels.{card.name}.reference"
    assert set(card.dtypes) <= set(card.tolerance)
    sizes = dict.fromkeys(card.axes, 2) | {"itemsize": 2}
    assert card.bytes(sizes) > 0
    assert card.flops(sizes) >= 0


def test_a_card_refuses_what_is_too_far_and_nan() -> None:
    (card,) = (card for card in CARDS if card.name == "rms_norm")
    want = torch.ones(3)
    card.assert_near(want * (1 + 1e-7), want)
    for got in (want * 1.001, want * torch.nan, want.double()):
        with pytest.raises(AssertionError):
            card.assert_near(got, want)
