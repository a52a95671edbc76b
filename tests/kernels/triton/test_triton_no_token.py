"""On Triton's kernels, too, a row whose logits are no numbers brings no token."""

from __future__ import annotations

from pathlib import Path

import pytest
from no_numbers import WAYS, assert_alone_without_tokens, sizes

from optimist.actors.worker.triton_executor import TritonExecutor


@pytest.mark.parametrize("way", ["greedy", "filtered", "reported"])
def test_a_row_without_numbers_brings_no_token_and_its_neighbour_does(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    assert_alone_without_tokens(TritonExecutor, sizes(tmp_path), WAYS[way])
