"""A row whose logits are no numbers brings no token: its request fails, and no other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from no_numbers import WAYS, assert_alone_without_tokens, sizes

from optimist.actors.worker.base import Executor
from optimist.actors.worker.native_executor import NativeExecutor
from optimist.actors.worker.no_token import answered
from optimist.actors.worker.torch_executor import TorchExecutor

KINDS: dict[str, type[Executor]] = {"native": NativeExecutor, "torch": TorchExecutor}


@pytest.mark.usefixtures("strict_torch")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_without_numbers_brings_no_token_and_its_neighbour_does(
    kind: str, way: str, tmp_path: Path
) -> None:
    assert_alone_without_tokens(KINDS[kind], sizes(tmp_path), WAYS[way])


@pytest.mark.parametrize("way", WAYS)
def test_eight_bits_make_no_number_of_what_is_none(way: str, tmp_path: Path) -> None:
    assert_alone_without_tokens(NativeExecutor, sizes(tmp_path, quant="int8"), WAYS[way])


@pytest.mark.parametrize(
    ("counts", "ids", "want"),
    [
        ([2, 1], [5, 6, 7, 8], [2, 1]),
        ([2, 1], [5, -2, 7, 8], [0, 1]),
        ([1, 2], [5, -2, 7, -2], [1, 0]),
    ],
    ids=["all there", "a draft was right, nothing behind it", "behind the last that counts"],
)
def test_a_row_counts_whole_or_not_at_all(
    counts: list[int], ids: list[int], want: list[int]
) -> None:
    numbers = np.array(counts, np.int32), np.array(ids, np.int32)
    assert answered(*numbers, np.array([2, 2])).tolist() == want
