"""MATRIX on Triton's kernels, interpreted: pairs of its options, drafts of the host among them.

All of its cells by one command, see CONTRIBUTING.md.
"""

from __future__ import annotations

import pytest
import torch

from optimist.actors.worker.base import Executor, Limits
from optimist.kernels.choice import triton_kernels
from optimist.testing.conformance import check_executor
from optimist.testing.matrix import Cell, cells, pairwise
from optimist.testing.torch_oracle import ToyOracle
from optimist.testing.torch_toy import TOY, toy_executor, toy_network

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"
NETWORK = toy_network(kernels=triton_kernels(DEVICE), device=DEVICE)
NEXT_TOKEN = ToyOracle()


def make(limits: Limits) -> Executor:
    return toy_executor(limits, NETWORK)


@pytest.mark.parametrize("cell", pairwise(cells(("", "ngram", "suffix"))), ids=str)
def test_a_cell_equals_the_dense_network(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    check_executor(make, NEXT_TOKEN, vocab_size=TOY.vocab_size, every=[cell])
