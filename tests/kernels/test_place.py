"""The beginning and the end of a step: where tokens are, and what stays of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from placed_rows import SLOTS, WIDTH, ragged_step

from optimist.kernels.advance import CARD as ADVANCE
from optimist.kernels.advance import advance
from optimist.kernels.place import CARD as PLACE
from optimist.kernels.place import place
from optimist.kernels.sync_check import checked_step


def row_of(given: dict[str, Any]) -> torch.Tensor:
    queries = given["starts"].diff().long()
    return torch.repeat_interleave(torch.arange(len(queries)), queries)


@pytest.mark.parametrize("rows", [0, 1, 5, 9])
def test_tokens_are_placed_as_the_spec_says(rows: int) -> None:
    given = ragged_step(rows, rows)
    want = PLACE.reference(**given)
    got = place(**given, row=row_of(given))
    for ours, theirs in zip(got, want, strict=True):
        assert ours.tolist() == theirs.tolist()


def test_a_row_with_drafts_reads_them_behind_its_last_token() -> None:
    tokens = torch.zeros(2, 8, dtype=torch.int32)
    tokens[1] = torch.tensor([5, 6, 7, 80, 81, 0, 0, 0])
    table = torch.tensor([[3, 1]], dtype=torch.int32)
    placed = place(
        tokens,
        torch.tensor([1]),
        torch.tensor([0, 3], dtype=torch.int32),
        torch.tensor([5], dtype=torch.int32),
        table,
        4,
        row=torch.zeros(3, dtype=torch.int64),
    )
    assert placed.ids.tolist() == [7, 80, 81]
    assert placed.positions.tolist() == [2, 3, 4]
    assert placed.kv_slots.tolist() == [14, 15, 4]


def end(seed: int, rows: int) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    slots = rng.permutation(SLOTS)[:rows]
    rejected = rng.integers(0, 4, rows)
    queries = rejected + rng.integers(1, 5, rows)
    choices = rng.permutation(SLOTS * WIDTH)[: 3 * rows]
    columns = [
        rng.integers(0, 9, SLOTS).astype(np.int32),
        rng.integers(0, 99, (SLOTS, WIDTH)).astype(np.int32),
        slots.astype(np.int64),
        queries.astype(np.int32),
        rejected.astype(np.int32),
        choices // WIDTH,
        choices % WIDTH,
        rng.integers(0, 99, 3 * rows),
    ]
    return [torch.from_numpy(column) for column in columns]


@pytest.mark.parametrize("rows", [0, 1, 5, 9])
def test_slots_advance_as_the_spec_says(rows: int) -> None:
    ours, theirs = end(rows, rows), end(rows, rows)
    before = ours[0].clone()
    advance(*ours)
    ADVANCE.reference(*theirs)
    assert ours[0].tolist() == theirs[0].tolist()
    assert ours[1].tolist() == theirs[1].tolist()
    assert (ours[0] != before).sum() == rows


def test_nothing_is_read_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    given, ends = ragged_step(3, 5), [column.clone() for column in end(3, 5)]
    row = row_of(given)
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    with checked_step():
        place(**given, row=row)
        advance(*ends)
