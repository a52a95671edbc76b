"""The engine on Triton's kernels: ids equal a dense network that knows neither cache nor batch.

Every step runs under the sync check, and its results come late.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from model_files import (
    huggingface_config,
    huggingface_tensors,
    shapes,
    weights,
    write_huggingface,
)

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Limits
from optimist.actors.worker.chosen import TRITON, executor_path
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.actors.worker.triton_executor import TritonExecutor
from optimist.kernels import choice, triton_interpreter
from optimist.kernels.choice import TORCH, triton_kernels
from optimist.messages.errors import ConfigError
from optimist.testing.conformance import check_executor
from optimist.testing.hand import Hand, Row
from optimist.testing.matrix import Cell
from optimist.testing.placements import VOCAB_SIZE, check_placed
from optimist.testing.torch_oracle import ToyOracle
from optimist.testing.torch_toy import TOY, toy_executor, toy_network, toy_weights

NETWORK = toy_network(kernels=triton_kernels("cpu"))
NEXT_TOKEN = ToyOracle()

CELLS = {
    "sampled": Cell(2, 3, True, "large", 2, "seeded"),
    "drafts from the host": Cell(2, 3, True, "small", 2, "seeded", "ngram"),
}


@pytest.fixture(autouse=True)
def every_read_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")


def make(limits: Limits) -> Executor:
    return toy_executor(limits, NETWORK)


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_a_cell_equals_the_dense_network(cell: Cell) -> None:
    check_executor(make, NEXT_TOKEN, vocab_size=TOY.vocab_size, every=[cell])


def test_drafts_of_the_device_change_no_token() -> None:
    def drafting(limits: Limits) -> Executor:
        config = WorkerConfig(
            dtype="float64",
            block_size=limits.block_size,
            kv_blocks=limits.num_blocks,
            max_slots=limits.max_slots,
            max_model_len=limits.max_model_len,
            max_batch_tokens=limits.max_batch_tokens,
            proposer="self-draft",
        )
        return TorchExecutor(NETWORK, config)

    cell = Cell(2, 512, True, "large", 1, "greedy", "device-right")
    check_executor(drafting, NEXT_TOKEN, vocab_size=TOY.vocab_size, every=[cell])


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_worker_in_a_process_of_its_own_interprets_too() -> None:
    shape = replace(TOY, vocab_size=VOCAB_SIZE)
    oracle = ToyOracle(shape, toy_weights(shape))
    executor = "optimist.testing.torch_toy:TritonToyExecutor"
    await check_placed(Cell(2, 512, True, "large", 1, "greedy"), "embedded", executor, oracle)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_model_from_a_file_says_what_it_says_on_torch(dtype: str, tmp_path: Path) -> None:
    values = weights(shapes())
    path = write_huggingface(tmp_path / "model", huggingface_config(), huggingface_tensors(values))
    config = WorkerConfig(
        model=str(path),
        dtype=dtype,  # type: ignore[arg-type]
        kv_blocks=8,
        block_size=4,
        max_slots=2,
        max_model_len=16,
        threads=1,
    )
    ours, theirs = (logits_of(kind, config) for kind in (TritonExecutor, TorchExecutor))
    near = 1e-5 if dtype == "float32" else 0.1
    torch.testing.assert_close(ours, theirs, rtol=near, atol=near)


def logits_of(kind: type[TorchExecutor], config: WorkerConfig) -> torch.Tensor:
    """Of a prompt's last token and of the one behind it."""
    executor = kind.load(config, lambda what, done, total: None)
    with pytest.MonkeyPatch.context() as patch:
        model, found = executor._model, []  # noqa: SLF001 - nearer to the kernels than ids
        assert model.kernels.name == ("triton" if kind is TritonExecutor else "torch")
        plain = model.logits

        def seen(x: torch.Tensor) -> torch.Tensor:
            found.append(plain(x))
            return found[-1].clone()

        patch.setattr(model, "logits", seen)
        hand = Hand(executor)
        hand.open(0, [1, 2, 3, 4, 5], [0, 1])
        hand.run([Row(0, 5)])
        hand.run([Row(0, 1, decode=True)])
    executor.close()
    return torch.cat(found)


def test_where_triton_is_missing_it_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert executor_path(WorkerConfig(executor="triton")) == TRITON
    monkeypatch.setattr(triton_interpreter, "missing", lambda: "triton is not here")
    monkeypatch.setattr(choice, "missing", lambda: "triton is not here")
    with pytest.raises(ConfigError, match=r"worker\.executor: triton is not here, or use .* torch"):
        executor_path(WorkerConfig(executor="triton"))
    with pytest.raises(ConfigError, match="kernels: triton is not here"):
        triton_kernels("cpu")


def test_a_quantisation_is_refused() -> None:
    with pytest.raises(ConfigError, match="int4 needs the native executor"):
        executor_path(WorkerConfig(executor="triton", quant="int4"))


def test_both_makers_have_every_operator() -> None:
    assert [type(operator) for operator in triton_kernels("cpu")] == [
        type(operator) for operator in TORCH
    ]
