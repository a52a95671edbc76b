"""Every operator of the library has a card, an entry of its own and a spec."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from optimist.kernels import native
from optimist.kernels.card import AXES
from optimist.kernels.native.cards import CARDS, Card
from optimist.kernels.native.device import PHASES
from optimist.kernels.native.shapes import Format

SOURCE = Path(native.__path__[0])
SUPPORT = {"attention_scratch", "choose_scratch", "read", "multiply_add"}
"""room that operators take, and what measures the machine"""


def test_every_function_of_an_instruction_set_has_a_card() -> None:
    text = (SOURCE / "isa.h").read_text(encoding="utf-8")
    (body,) = re.findall(r"struct Isa \{(.*?)\n\};", text, re.DOTALL)
    functions = set(re.findall(r"\(\*(\w+)\)\(", body))
    assert SUPPORT < functions
    assert {name for card in CARDS for name in card.does} == functions - SUPPORT


def test_every_phase_of_a_step_has_an_operator() -> None:
    assert {phase for card in CARDS for phase in card.phases} == set(PHASES) - {"wait"}


def test_cards_are_in_order() -> None:
    names = [card.name for card in CARDS]
    assert names == sorted(set(names))


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_card_is_complete(card: Card) -> None:
    for where in (card.entry, card.reference):
        module, name = where.split(":")
        assert callable(getattr(import_module(f"optimist.{module}"), name))
    assert set(card.axes) <= set(AXES)
    sizes = dict.fromkeys(AXES, 2)
    for kind in Format:
        assert card.bytes(sizes, kind) > 0
        assert card.flops(sizes, kind) > 0
    assert min(card.tolerance.values()) >= 0
    assert Format.BF16 in card.tolerance
