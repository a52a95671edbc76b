"""Every operator has a spec and a card, and a card speaks the common alphabet."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch

import optimist.kernels
from optimist.kernels.card import AXES, FP8, Card
from optimist.kernels.cards import CARDS

FOLDER = Path(optimist.kernels.__file__).parent


def test_every_folder_with_a_spec_has_a_card() -> None:
    folders = sorted(path.parent.name for path in FOLDER.glob("*/reference.py"))
    # The native library has many operators, and cards of its own.
    assert sorted([*(card.name for card in CARDS), "native"]) == folders


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_card_is_complete(card: Card) -> None:
    assert set(card.axes) <= set(AXES)
    assert card.reference.__module__ == f"optimist.kernels.{card.name}.reference"
    assert set(card.dtypes) <= set(card.tolerance)
    sizes = dict.fromkeys(card.axes, 2) | {"itemsize": 2}
    assert card.bytes(sizes) > 0
    assert card.flops(sizes) >= 0
    # What torch computes runs on a GPU too.
    on_cpu = (FOLDER / card.name / "cpu.py").exists()
    assert card.devices == (("cpu", "gpu") if on_cpu else ("gpu",))
    assert set(card.narrow) <= set(FP8)


def test_a_card_refuses_what_is_too_far_and_nan() -> None:
    (card,) = (card for card in CARDS if card.name == "rms_norm")
    want = torch.ones(3)
    card.assert_near(want * (1 + 1e-7), want)
    for got in (want * 1.001, want * torch.nan, want.double()):
        with pytest.raises(AssertionError):
            card.assert_near(got, want)


def _operators() -> list[Path]:
    folders = [FOLDER / card.name for card in CARDS] + [FOLDER / "metadata"]
    return [FOLDER / "kv_cache.py", *(path for folder in folders for path in folder.glob("*.py"))]


@pytest.mark.parametrize("path", _operators(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_docstrings_write_shapes_in_the_common_alphabet(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs = [
        ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, documented)
    ]
    shapes = [shape for doc in docs for shape in re.findall(r"\[([^\]]*)\]", doc)]
    letters = {letter for shape in shapes for letter in re.findall(r"\b\d*([A-Z])\b", shape)}
    assert letters <= set(AXES)
