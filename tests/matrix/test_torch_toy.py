"""MATRIX on a real network in float64: ids equal a dense network that knows neither cache nor batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Limits
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.messages.slots import Sampling
from optimist.models.llama import Llama
from optimist.testing.conformance import check_executor
from optimist.testing.hand import GREEDY, Hand, Row
from optimist.testing.matrix import Cell, cells, pairwise
from optimist.testing.torch_oracle import ToyOracle
from optimist.testing.torch_toy import TOY, toy_executor, toy_network

NETWORK = toy_network()
NEXT_TOKEN = ToyOracle()


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make(limits: Limits) -> Executor:
    return toy_executor(limits, NETWORK)


@pytest.mark.parametrize("cell", pairwise(cells()), ids=str)
def test_a_cell_equals_the_dense_network(cell: Cell) -> None:
    check_executor(make, NEXT_TOKEN, vocab_size=TOY.vocab_size, every=[cell])


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=0.7, seed=5)])
def test_the_toy_says_many_different_tokens(sampling: Sampling) -> None:
    tokens = [3]
    for _ in range(30):
        tokens.append(NEXT_TOKEN(tokens, 1, sampling))
    assert len(set(tokens)) > 10


def test_a_wrong_block_changes_tokens_of_the_toy() -> None:
    limits = Limits(
        num_blocks=16,
        block_size=4,
        max_slots=2,
        max_model_len=64,
        max_batch_tokens=64,
        vocab_size=97,
    )
    prompt, drawn = [5, 60, 7, 81, 9, 10, 11], []
    for blocks in ([0, 1, 2], [0, 3, 2]):
        driver = Hand(make(limits))
        driver.open(1, prompt[:4], [3])
        driver.run([Row(1, 4)])
        driver.open(0, prompt, [0, 1, 2])
        driver.run([Row(0, 7)])
        executor = driver.executor
        table = executor._state.block_table  # type: ignore[attr-defined]  # noqa: SLF001
        table[0, :3] = torch.tensor(blocks)
        drawn.append([driver.run([Row(0, 1, decode=True)])[0] for _ in range(4)])
    assert drawn[0] != drawn[1]


def drafting(proposer: str, draft: Llama | None = None) -> Callable[[Limits], Executor]:
    """The toy that drafts by itself."""

    def made(limits: Limits) -> Executor:
        config = WorkerConfig(
            dtype="float64",
            block_size=limits.block_size,
            kv_blocks=limits.num_blocks,
            max_slots=limits.max_slots,
            max_model_len=limits.max_model_len,
            max_batch_tokens=limits.max_batch_tokens,
            proposer=proposer,  # type: ignore[arg-type]
            ngram_min=1,
        )
        return TorchExecutor(NETWORK, config, draft=draft)

    return made


BY_ITSELF = {
    "self-draft": drafting("self-draft"),
    "draft-model": drafting("draft-model", toy_network(seed=1)),
    "ngram-device": drafting("ngram-device"),
}


@pytest.mark.parametrize("cell", pairwise(cells(("ngram", "suffix"))), ids=str)
def test_drafts_from_the_host_change_no_token(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    check_executor(make, NEXT_TOKEN, vocab_size=TOY.vocab_size, every=[cell])


DRAFTING = [(*cell, name) for cell in cells(("device-right",)) for name in BY_ITSELF]


@pytest.mark.parametrize("row", pairwise(DRAFTING), ids=str)
def test_drafts_of_the_device_change_no_token(
    row: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs of options, of which who drafts is one."""
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    cell, executor = Cell(*row[:-1]), BY_ITSELF[row[-1]]
    check_executor(executor, NEXT_TOKEN, vocab_size=TOY.vocab_size, every=[cell])
