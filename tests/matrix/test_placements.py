"""MATRIX through whole engines: each pair of options and placements, on the late integer model."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from optimist.actors.config import Placement
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.matrix import Cell, cells, pairwise
from optimist.testing.oracle import IntegerOracle
from optimist.testing.placements import LATE_INTEGERS, TOY, VOCAB_SIZE, check_placed
from optimist.testing.torch_oracle import ToyOracle
from optimist.testing.torch_toy import TOY as TOY_CONFIG

pytestmark = pytest.mark.anyio

INTEGERS = IntegerOracle(IntegerModel(vocab_size=VOCAB_SIZE))
FEW_WORDS = IntegerOracle(IntegerModel(vocab_size=VOCAB_SIZE, words=2))
DENSE = ToyOracle(replace(TOY_CONFIG, vocab_size=VOCAB_SIZE))
ON_THE_HOST = ("", "ngram", "suffix", "script")
PLACEMENTS: tuple[Placement, ...] = ("inline", "embedded", "processes")


class Placed(NamedTuple):
    """A cell and where it runs."""

    depth: int
    chunk: int
    cache: bool
    pool: str
    batch: int
    sampling: str
    drafts: str
    placement: Placement

    def cell(self) -> Cell:
        return Cell(*self[:-1])  # type: ignore[arg-type]


PLACED = pairwise([Placed(*cell, where) for cell in cells(ON_THE_HOST) for where in PLACEMENTS])
DRAFTED: list[tuple[Cell, Placement]] = [
    (Cell(1, 3, True, "large", 1, "seeded", "self-draft"), "inline"),
    (Cell(2, 3, True, "large", 7, "greedy", "self-draft"), "processes"),
    (Cell(1, 3, True, "large", 7, "seeded", "ngram-device"), "inline"),
    (Cell(2, 3, True, "large", 7, "greedy", "ngram-device"), "embedded"),
]


@pytest.mark.parametrize("placed", PLACED, ids=lambda placed: "-".join(map(str, placed)))
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cell_equals_the_oracle(placed: Placed) -> None:
    found = await check_placed(placed.cell(), placed.placement, LATE_INTEGERS, FEW_WORDS, words=2)
    assert (found.accepted > 0) == (placed.drafts != "")
    assert 2 * found.accepted > found.drafted or placed.drafts != "script"


@pytest.mark.parametrize(("cell", "placement"), DRAFTED, ids=str)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_drafts_of_the_device_equal_the_dense_network(
    cell: Cell, placement: Placement
) -> None:
    assert (await check_placed(cell, placement, TOY, DENSE)).accepted > 0


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_every_loop_equals_the_oracle(placement: Placement) -> None:
    cell = Cell(2, 3, True, "small", 7, "seeded")
    await check_placed(cell, placement, LATE_INTEGERS, INTEGERS)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_the_torch_toy_equals_the_dense_network(placement: Placement) -> None:
    await check_placed(Cell(2, 3, True, "small", 7, "seeded"), placement, TOY, DENSE)
