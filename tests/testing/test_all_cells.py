"""All cells by one command."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from optimist.testing import all_cells
from optimist.testing.integer_model import IntegerExecutor
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.matrix import Cell

FEW = [Cell(1, 512, True, "large", 1, "greedy"), Cell(2, 3, False, "small", 2, "seeded")]


def few(drafts: Sequence[str]) -> list[Cell]:
    return [cell._replace(drafts=drafts[0]) for cell in FEW]


@pytest.fixture(autouse=True)
def few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_cells, "cells", few)


@pytest.mark.parametrize("more", [[], ["--drafts", "suffix"]], ids=["nobody", "suffix"])
@pytest.mark.parametrize("model", ["integers", "toy"])
def test_green_cells_are_counted(
    model: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert all_cells.main(["--model", model, *more]) == 0
    assert capsys.readouterr().out == "2 cells, 0 red\n"


def test_engines_run_in_the_placement_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert all_cells.main(["--placement", "inline"]) == 0
    assert capsys.readouterr().out == "2 cells, 0 red\n"


def test_red_cells_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = IntegerModel(vocab_size=271)
    monkeypatch.setattr(
        all_cells, "IntegerExecutor", lambda limits, model: IntegerExecutor(limits, other)
    )
    assert all_cells.main([]) == 1
    said = capsys.readouterr()
    assert said.out == "2 cells, 2 red\n"
    assert "depth=2-chunk=3-cache=False-pool=small-batch=2-sampling=seeded:" in said.err
