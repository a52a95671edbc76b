"""The beginning and the end of a step in Triton, with padding where a captured step would have it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from placed_rows import SLOTS, ragged_step
from torch import Tensor

from optimist.kernels.advance import CARD as ADVANCE
from optimist.kernels.advance.triton import advance
from optimist.kernels.place import CARD as PLACE
from optimist.kernels.place.triton import place
from optimist.kernels.token_to_req_indices import CARD as ROWS
from optimist.kernels.token_to_req_indices import token_to_req_indices as on_torch
from optimist.kernels.token_to_req_indices.triton import token_to_req_indices


def rows_of(starts: Tensor, tokens: int) -> Tensor:
    """The row of each token, and row 0 for padding."""
    at = torch.searchsorted(starts[1:].contiguous(), torch.arange(tokens).int(), right=True)
    return torch.where(at < len(starts) - 1, at, 0)


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("rows", [0, 1, 5, 9])
def test_tokens_are_placed_as_the_spec_says(rows: int, padding: int, device: str) -> None:
    given = ragged_step(rows, rows)
    want = PLACE.reference(**given)
    tokens = int(given["starts"][-1])
    row = rows_of(given["starts"], tokens + padding).to(device)
    there: dict[str, Any] = {
        k: v.to(device) if isinstance(v, Tensor) else v for k, v in given.items()
    }
    got = place(**there, row=row)
    for ours, theirs, fill in zip(got, want, (0, 0, -1), strict=True):
        assert ours.tolist() == theirs.tolist() + [fill] * padding


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize(("rows", "choices"), [(0, 0), (1, 1), (5, 2), (3, 7), (9, 150)])
def test_the_end_of_a_step_equals_the_spec(
    rows: int, choices: int, padding: int, device: str
) -> None:
    rng = np.random.default_rng(rows)
    width = 400
    computed, token_ids = torch.arange(SLOTS).int(), torch.zeros(SLOTS, width).int()
    places = rng.permutation(SLOTS * width)[:choices]
    given = [
        torch.from_numpy(rng.permutation(SLOTS)[:rows].astype(np.int64)),
        torch.from_numpy(rng.integers(1, 9, rows).astype(np.int32)),
        torch.from_numpy(rng.integers(0, 3, rows).astype(np.int32)),
        torch.from_numpy((places // width).astype(np.int64)),
        torch.from_numpy((places % width).astype(np.int64)),
        torch.from_numpy(rng.integers(0, 1000, choices).astype(np.int64)),
    ]
    ours = computed.clone().to(device), token_ids.clone().to(device)
    nowhere = torch.full((padding,), -1)
    padded = [torch.cat((one, nowhere.to(one.dtype))).to(device) for one in given]
    advance(*ours, *padded)
    ADVANCE.reference(computed, token_ids, *given)
    assert torch.equal(ours[0].cpu(), computed)
    assert torch.equal(ours[1].cpu(), token_ids)


@pytest.mark.parametrize("queries", [[], [3], [1, 1, 4, 200, 3], [0, 2, 0, 0, 5, 0]], ids=str)
@pytest.mark.parametrize("padding", [0, 2, 300])
def test_tokens_behind_the_last_query_map_to_row_0(
    queries: list[int], padding: int, device: str
) -> None:
    starts = torch.tensor([0, *np.cumsum(queries).tolist()], dtype=torch.int32, device=device)
    out = torch.full((sum(queries) + padding,), -7, dtype=torch.int32, device=device)
    assert token_to_req_indices(starts, out) is out
    assert out.tolist() == np.repeat(np.arange(len(queries)), queries).tolist() + [0] * padding
    for spec in (ROWS.reference, on_torch):
        there = torch.full_like(out, -7).cpu()
        assert torch.equal(spec(starts.cpu(), there), out.cpu())
