"""All cells by one command."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from optimist.testing import all_cells, matrix
from optimist.testing.integer_model import IntegerExecutor
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.matrix import Cell

FEW = [Cell(1, 512, True, "large", 1, "greedy"), Cell(2, 3, False, "small", 2, "seeded")]

REPEATING = Cell(1, 512, True, "large", 7, "greedy")
"""long enough that the toy says something again too"""


def few(drafts: Sequence[str]) -> list[Cell]:
    return [cell._replace(drafts=drafts[0]) for cell in FEW]


@pytest.fixture(autouse=True)
def few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_cells, "cells", few)


@pytest.mark.parametrize("model", ["integers", "toy"])
def test_green_cells_are_counted(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert all_cells.main(["--model", model]) == 0
    assert capsys.readouterr().out == "2 cells, 0 red\n"


@pytest.mark.parametrize(
    "more",
    [["--drafts", "ngram"], ["--drafts", "suffix"], ["--drafts", "suffix", "--model", "toy"]],
    ids=["ngram", "suffix", "toy"],
)
def test_drafts_are_right_now_and_then_and_counted(
    more: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(all_cells, "cells", lambda drafts: [REPEATING._replace(drafts=drafts[0])])
    assert all_cells.main(more) == 0
    said = re.fullmatch(r"1 cells, 0 red, (\d+) of (\d+) drafts right\n", capsys.readouterr().out)
    assert said is not None
    assert 0 < int(said[1]) < int(said[2])


def test_cells_in_which_no_draft_is_right_prove_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(all_cells, "WORDS", None)
    assert all_cells.main(["--drafts", "ngram"]) == 1
    assert "0 red, 0 of" in capsys.readouterr().out


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


def test_each_cell_is_told_when_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    assert all_cells.main([]) == 0
    told = re.findall(r"^(\d/\d), 0 red, \d+\.\d s: (.*)$", capsys.readouterr().err, re.MULTILINE)
    assert told == [("1/2", str(FEW[0])), ("2/2", str(FEW[1]))]


def test_parts_run_every_cell_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [FEW[0]._replace(chunk=chunk) for chunk in (1, 2, 3, 4, 5)]
    monkeypatch.setattr(all_cells, "cells", lambda drafts: many)
    ran = []
    for part in ("1/3", "2/3", "3/3"):
        assert all_cells.main(["--part", part]) == 0
        ran.append([line.split(": ")[1] for line in capsys.readouterr().err.splitlines()])
    assert sorted(cell for part in ran for cell in part) == sorted(str(cell) for cell in many)
    assert sorted(len(part) for part in ran) == [1, 2, 2]


def test_a_part_has_cells_of_every_kind() -> None:
    every = matrix.cells(("ngram",))
    for number in (1, 2):
        part = all_cells.Part(number, 2).of(every)
        assert len(part) == len(every) / 2
        assert {cell.sampling for cell in part} == {"greedy", "seeded"}


def test_a_part_in_which_no_draft_is_right_is_not_red_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(all_cells, "WORDS", None)
    assert all_cells.main(["--drafts", "ngram", "--part", "1/2"]) == 0


@pytest.mark.parametrize("part", ["0/2", "3/2", "2", "1/0", "a/b", "-1/2"])
def test_a_part_that_is_none_is_refused(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        all_cells.main([f"--part={part}"])
    assert f"expected I/N with I from 1 to N, got '{part}'" in capsys.readouterr().err
