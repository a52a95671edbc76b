"""The engine on Triton's kernels: ids equal a dense network that knows neither cache nor batch.

Every step runs under the sync check, and its results come late.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import torch
from model_files import (
    huggingface_config,
    huggingface_tensors,
    shapes,
    weights,
    write_huggingface,
)
from torch import Tensor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Limits
from optimist.actors.worker.chosen import TRITON, executor_path
from optimist.actors.worker.device_proposer import Round
from optimist.actors.worker.hidden_state_head import HiddenStateHead
from optimist.actors.worker.step_graphs import Decoded, StepGraphs
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.actors.worker.torch_rows import Rows
from optimist.actors.worker.torch_step import StepInput
from optimist.actors.worker.triton_executor import TritonExecutor
from optimist.kernels import choice, linear_int4, linear_int8, triton_interpreter
from optimist.kernels.choice import TORCH, triton_kernels
from optimist.kernels.contract import Kernels
from optimist.kernels.device import Device, device_of
from optimist.kernels.linear.cpu import plain
from optimist.kernels.linear_int4.reference import weights as four_bits
from optimist.messages.errors import ConfigError
from optimist.models.base import layer_shapes
from optimist.models.draft_head import DraftHead
from optimist.models.llama import Llama
from optimist.testing.conformance import check_executor
from optimist.testing.hand import Hand, Row
from optimist.testing.matrix import Cell
from optimist.testing.placements import VOCAB_SIZE, check_placed
from optimist.testing.torch_oracle import ToyOracle
from optimist.testing.torch_toy import TOY, toy_network, toy_weights

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"
NETWORK = toy_network(kernels=triton_kernels(DEVICE), device=DEVICE)
DRAFT = toy_network(seed=1, kernels=triton_kernels(DEVICE), device=DEVICE)
NEXT_TOKEN = ToyOracle()

Proposer = Literal["none", "self-draft", "draft-model", "ngram-device"]


@pytest.fixture(autouse=True)
def every_read_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")


class Captures(Device):
    """A CPU that runs captured steps: the same memory, the same padding, computed anew each time."""

    captures = True


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Counts steps that were replayed, steps that no graph had room for, and passes that drafted."""
    counts = {"replayed": 0, "not": 0, "drafting": 0}
    plain, plain_draft = StepGraphs.run, StepGraphs.draft

    def run(self: StepGraphs, rows: Rows) -> Decoded | None:
        found = plain(self, rows)
        counts["not" if found is None else "replayed"] += 1
        return found

    def draft(self: StepGraphs, slots: Any, queries: Any, ahead: Any) -> Decoded | None:
        found = plain_draft(self, slots, queries, ahead)
        counts["drafting"] += found is not None
        return found

    monkeypatch.setattr(StepGraphs, "run", run)
    monkeypatch.setattr(StepGraphs, "draft", draft)
    return counts


def captures() -> Device:
    """A GPU where there is one."""
    return Captures(torch.device("cpu")) if DEVICE == "cpu" else device_of(DEVICE)


def config_of(limits: Limits, proposer: Proposer, drafts: int) -> WorkerConfig:
    return WorkerConfig(
        dtype="float64",
        block_size=limits.block_size,
        kv_blocks=limits.num_blocks,
        max_slots=limits.max_slots,
        max_model_len=limits.max_model_len,
        max_batch_tokens=limits.max_batch_tokens,
        proposer=proposer,
        most_drafts=drafts,
        ngram_min=1,
    )


def capturing(limits: Limits) -> Executor:
    return TorchExecutor(NETWORK, config_of(limits, "none", 3), device=captures())


def drafting(proposer: Proposer, limits: Limits) -> Executor:
    draft = DRAFT if proposer == "draft-model" else None
    return TorchExecutor(NETWORK, config_of(limits, proposer, 3), draft=draft, device=captures())


def test_drafts_of_the_host_change_no_token_whether_steps_are_captured_or_not(
    replayed: dict[str, int],
) -> None:
    cell = Cell(2, 3, True, "small", 2, "seeded", "ngram")
    check_executor(capturing, NEXT_TOKEN, vocab_size=TOY.vocab_size, every=[cell])
    assert replayed["replayed"] > 5
    assert replayed["not"] > 1


@pytest.mark.parametrize("proposer", ["self-draft", "draft-model", "ngram-device"])
def test_drafts_of_the_device_change_no_token(proposer: Proposer, replayed: dict[str, int]) -> None:
    cell = Cell(2, 512, True, "large", 1, "greedy", "device-right")
    made = partial(drafting, proposer)
    check_executor(made, NEXT_TOKEN, vocab_size=TOY.vocab_size, every=[cell])
    assert replayed["replayed"] > 5
    assert (replayed["drafting"] > 5) == (proposer != "ngram-device")


class Random:
    """Weights of a head over hidden states."""

    def __init__(self) -> None:
        self._generator = torch.Generator().manual_seed(3)

    def take(self, *names: str) -> torch.Tensor:
        width = TOY.hidden_size
        known = layer_shapes(TOY) | {"fuse": (width, 2 * width)}
        drawn = [self._drawn(known[name.removeprefix("layers.0.")]) for name in names]
        return torch.cat(drawn).to(DEVICE)

    def _drawn(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.randn(shape, generator=self._generator, dtype=torch.float64) / shape[-1]


class Watching(HiddenStateHead):
    """Remembers what it made of each step, of two slots."""

    def __init__(self, model: Llama, limits: Limits) -> None:
        super().__init__(DraftHead(model, Random()), limits)
        self.seen: list[torch.Tensor] = []

    def observe(self, round: Round, step: StepInput, hidden: Tensor, rejected: Tensor) -> None:
        super().observe(round, step, hidden, rejected)
        self.seen.append(self._states[:2].clone())


def watched(graphs: bool) -> torch.Tensor:
    """What a proposer made of a prompt's step and two that decode."""
    made: list[Watching] = []

    def watching(model: Llama, limits: Limits) -> Watching:
        made.append(Watching(model, limits))
        return made[-1]

    sizes = config_of(Limits(16, 4, 3, 32, 32, TOY.vocab_size), "none", 2)
    config = msgspec.structs.replace(sizes, graphs=graphs)
    hand = Hand(TorchExecutor(NETWORK, config, proposer=watching, device=captures()))
    for slot in range(2):
        hand.open(slot, range(1 + slot, 8), range(4 * slot, 4 * slot + 4))
    hand.submit([Row(0, 7), Row(1, 6)])
    for _ in range(2):
        hand.submit([Row(0, 1, decode=True), Row(1, 1, decode=True)])
    return torch.stack(made[0].seen).cpu()


def test_a_proposer_that_watches_sees_the_same_of_a_captured_step(
    replayed: dict[str, int],
) -> None:
    want = watched(graphs=False)
    assert replayed["replayed"] == 0
    got = watched(graphs=True)
    assert replayed["replayed"] == 2
    assert want.abs().max() > 0
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_worker_in_a_process_of_its_own_interprets_too() -> None:
    shape = replace(TOY, vocab_size=VOCAB_SIZE)
    oracle = ToyOracle(shape, toy_weights(shape))
    executor = "optimist.testing.torch_toy:TritonToyExecutor"
    await check_placed(Cell(2, 512, True, "large", 1, "greedy"), "embedded", executor, oracle)


@pytest.mark.parametrize(
    ("dtype", "narrow", "near"),
    [
        ("float32", {}, 1e-6),
        ("bfloat16", {}, 0.03),
        ("float32", {"quant": "int8"}, 0.03),
        ("float32", {"kv_dtype": "fp8"}, 0.05),
    ],
)
def test_a_model_from_a_file_says_what_it_says_on_torch(
    dtype: str, narrow: dict[str, Any], near: float, tmp_path: Path
) -> None:
    config = small(tmp_path, dtype)
    theirs = logits_of(TorchExecutor, config)
    ours = logits_of(TritonExecutor, msgspec.structs.replace(config, **narrow))
    assert bool(narrow) * 1e-4 <= (ours - theirs).norm() / theirs.norm() < near


def test_weights_of_four_bits_are_those_of_the_spec(tmp_path: Path) -> None:
    config = small(tmp_path, "float32")
    theirs = logits_of(Rounded, config)
    ours = logits_of(TritonExecutor, msgspec.structs.replace(config, quant="int4"))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def small(folder: Path, dtype: str) -> WorkerConfig:
    """A model in a file, and room for two requests."""
    values = weights(shapes())
    path = write_huggingface(folder / "model", huggingface_config(), huggingface_tensors(values))
    return WorkerConfig(
        model=str(path),
        dtype=dtype,  # type: ignore[arg-type]
        kv_blocks=8,
        block_size=4,
        max_slots=2,
        max_model_len=16,
        threads=1,
    )


class Rounded(TorchExecutor):
    """On weights that were rounded beforehand."""

    @staticmethod
    def choose_kernels(config: WorkerConfig, device: str) -> Kernels:
        """Torch's, given what is left of weights."""
        return TORCH._replace(
            pack=lambda weight, bias: plain(four_bits(linear_int4.quantised(weight)), bias),
            pack_head=lambda weight, bias: plain(eight_bits(linear_int8.quantised(weight)), bias),
        )


def eight_bits(held: linear_int8.Int8) -> torch.Tensor:
    return held.values * held.scale[:, None]


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
    with pytest.raises(ConfigError, match=r"worker\.executor: triton is not here, or use torch"):
        executor_path(WorkerConfig(executor="triton"))
    with pytest.raises(ConfigError, match="kernels: triton is not here"):
        triton_kernels("cpu")


def test_both_makers_have_every_operator() -> None:
    assert [type(operator) for operator in triton_kernels(DEVICE)] == [
        type(operator) for operator in TORCH
    ]
