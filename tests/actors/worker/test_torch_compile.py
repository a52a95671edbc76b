"""Norms, gate and rotation compiled by torch: the same tokens, and refused where it cannot be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from toy_device import PROMPT, SIZES, greedy_from

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.chosen import TORCH, executor_path
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.kernels import compiled, gpus
from optimist.messages.errors import ConfigError
from optimist.testing.hand import GREEDY, Hand, Row
from optimist.testing.torch_toy import toy_network


def config(**options: Any) -> WorkerConfig:
    return WorkerConfig(**{"dtype": "float64", "torch_compile": "aot_eager", **SIZES, **options})


def test_tokens_are_the_same_and_no_step_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    compile_by = torch.compile

    def seen(operator: Any, **options: Any) -> Any:
        assert options.pop("backend") == "aot_eager"

        def backend(graph: Any, inputs: Any) -> Any:
            made.append(len(inputs))
            return graph.forward

        return compile_by(operator, backend=backend, **options)

    monkeypatch.setattr(torch, "compile", seen)
    kernels = TorchExecutor.choose_kernels(config(), "cpu")
    told: list[tuple[str, int, int]] = []
    network = toy_network(kernels=kernels)
    hand = Hand(TorchExecutor(network, config(), progress=lambda *part: told.append(part)))
    assert told[-1] == ("compiled sizes", 2, 2)
    compiled_at_start = len(made)
    assert compiled_at_start >= len(compiled.DENSE) - 1
    hand.open(0, PROMPT, range(10), sampling=GREEDY)
    said = [hand.run([Row(0, len(PROMPT))])[0], *hand.decode(0, 5)]
    assert said == greedy_from(PROMPT, 6)
    assert len(made) == compiled_at_start


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"executor": "native", "dtype": "bfloat16"}, "torch_compile: aot_eager needs the torch"),
        ({"executor": "triton"}, "torch_compile: aot_eager needs the torch executor, got 'triton'"),
    ],
)
def test_other_kernels_are_not_compiled_by_torch(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        executor_path(config(device="cpu", **options))


def test_a_cpu_that_may_choose_takes_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "DRIVERS", ())
    assert executor_path(config(dtype="bfloat16", block_size=16)) == TORCH


def test_without_a_compiler_inductor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optimist.kernels.compiled.shutil.which", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ConfigError, match=r"cannot compile for cpu: found no C\+\+ compiler: g"):
        TorchExecutor.choose_kernels(config(torch_compile="inductor"), "cpu")
    monkeypatch.setattr("optimist.actors.worker.torch_executor.cannot_compile", lambda: "no triton")
    with pytest.raises(ConfigError, match="cannot compile for cuda:0: no triton"):
        TorchExecutor.choose_kernels(config(torch_compile="inductor"), "cuda:0")


def test_the_sync_check_is_not_blinded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    with pytest.raises(
        ConfigError, match=r"torch_compile: aot_eager and OPTIMIST_SYNC_CHECK=error"
    ):
        TorchExecutor.choose_kernels(config(), "cpu")
