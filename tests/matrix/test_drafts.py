"""MATRIX with drafts on the integer model: whoever drafts, every cell equals ORACLE, and its bounds are exact."""

from __future__ import annotations

import pytest

from optimist.testing.drafting import CLASSES
from optimist.testing.matrix import DRAFTS, FEW_WORDS, INTEGERS, Seen, cells, check_cell, inline
from optimist.testing.oracle import IntegerOracle

RIGHT = {"right", "device-right", "lie-too-many"}
NEVER_RUN = {"none", "too-many", "lie-late"}
NEVER_RIGHT = {"wrong", "end-0"}


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("drafts", DRAFTS)
def test_every_cell_equals_the_oracle(drafts: str, depth: int) -> None:
    seen: list[Seen] = []
    model = FEW_WORDS if drafts in CLASSES else INTEGERS
    run, oracle = inline(model=model, seen=seen.append), IntegerOracle(model)
    for cell in cells([drafts]):
        if cell.depth == depth:
            check_cell(cell, run, oracle)
    assert len(seen) == 72
    drafted, accepted = sum(s.drafted for s in seen), sum(s.accepted for s in seen)
    assert (drafted == 0) == (drafts in NEVER_RUN)
    assert (accepted == 0) == (drafts in NEVER_RIGHT | NEVER_RUN)
    assert accepted == drafted or drafts not in RIGHT
    loose = sum(s.loose_bounds for s in seen)
    assert loose == 0 or depth > 1
    assert loose > 0 or depth == 1 or drafts == "device-right"
