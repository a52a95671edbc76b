"""Three type checkers keep exact and optimistic plans, batches, metadata and their consumers apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkers import CHECKERS, errors
from house import ROOT

UNION = Path("tests/typing/union")


@pytest.fixture(scope="module", params=CHECKERS)
def found(request: pytest.FixtureRequest) -> dict[str, set[int]]:
    """Of each file, the lines with an error."""
    return errors(request.param, UNION)


def test_right_uses_pass(found: dict[str, set[int]]) -> None:
    assert found["good.py"] == set()


def test_every_planted_misuse_is_reported_and_nothing_else(found: dict[str, set[int]]) -> None:
    lines = (ROOT / UNION / "misuse.py").read_text(encoding="utf-8").splitlines()
    planted = {at for at, line in enumerate(lines, 1) if "# BAD" in line}
    assert len(planted) > 50
    assert found["misuse.py"] == planted
