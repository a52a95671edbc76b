"""Golden text of an engine beside what another implementation says, as a command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from optimist.testing.golden import Run, main, sure

GOLDEN = Path(__file__).parents[1] / "data" / "golden.json"
TOKENS = 4


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def first_cases(count: int) -> list[dict[str, Any]]:
    """Their first tokens, without doubt."""
    cases = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"][:count]
    return [
        one | {"greedy_ids": one["greedy_ids"][:TOKENS], "top2_margins": [1.0] * TOKENS}
        for one in cases
    ]


def test_a_case_counts_up_to_the_first_margin_that_leaves_doubt() -> None:
    assert sure([1], [5, 6, 7], [0.5, 0.4, 0.01], 0.02).tokens == [5, 6]
    assert sure([1], [5, 6, 7], [0.5, 0.4, 0.3], 0.02).tokens == [5, 6, 7]


def test_a_run_gives_a_draft_model_to_the_proposer_that_needs_one_alone() -> None:
    assert Run("inline", 2, "none", "m").options() == {"placement": "inline", "depth": 2}
    assert "draft_model" not in Run("inline", 2, "ngram", "m").options()
    assert Run("inline", 2, "draft-model", "m").options()["draft_model"] == "m"


def test_what_differs_is_named_and_is_the_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = first_cases(2)
    said = bad["greedy_ids"]
    wrong = bad | {"greedy_ids": [*said[:-1], said[-1] + 1]}
    file = tmp_path / "golden.json"
    file.write_text(json.dumps({"cases": [good, wrong]}), encoding="utf-8")
    options = ["--placement", "inline", "--depth", "2", "--proposer", "ngram", "--threads", "1"]
    assert main([str(file), *options]) == 1
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("inline, depth 2, ngram: 2 cases, 8 tokens, 1 differ")
    assert others == [f"  case 1: expected {wrong['greedy_ids']}, got {said}"]
