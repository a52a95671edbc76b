"""MATRIX on the integer model: every cell equals ORACLE, and the cells do what they are named for."""

from __future__ import annotations

import pytest

from optimist.testing.matrix import INTEGERS, Cell, Seen, cells, check_cell, inline, pairwise
from optimist.testing.oracle import IntegerOracle


@pytest.mark.parametrize("cell", cells(), ids=str)
def test_every_cell_equals_the_oracle(cell: Cell) -> None:
    seen: list[Seen] = []
    check_cell(cell, inline(seen=seen.append), IntegerOracle(INTEGERS))
    assert (seen[0].cached_tokens > 0) == cell.cache
    if cell.pool == "large" or cell.batch == 1:
        assert seen[0].preemptions == 0
    elif cell.batch == 7:
        assert seen[0].preemptions > 0


def test_a_pairwise_choice_has_every_pair_of_values_and_few_cells() -> None:
    few = pairwise(cells())
    assert len(few) < 20
    for first in range(len(Cell._fields)):
        for second in range(first):
            pairs = {(cell[first], cell[second]) for cell in cells()}
            assert {(cell[first], cell[second]) for cell in few} == pairs
