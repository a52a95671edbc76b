"""A torch toy in float64: a real network, small, in which rounding is too small to change a token."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Limits, Progress
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.kernels.choice import TORCH, triton_kernels
from optimist.kernels.contract import Kernels
from optimist.messages.errors import ConfigError
from optimist.models.base import expected_shapes
from optimist.models.config import ModelConfig
from optimist.models.llama import Llama

ToyWeights = dict[str, NDArray[np.float64]]

TOY = ModelConfig(
    architecture="llama",
    vocab_size=97,
    hidden_size=32,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    intermediate_size=48,
    max_model_len=64,
    rms_norm_eps=1e-5,
    rope_theta=100.0,
)


def toy_weights(config: ModelConfig = TOY, seed: int = 0) -> ToyWeights:
    """Random weights, large enough that attention and feed-forward matter; exact in float32."""
    rng = np.random.default_rng(seed)
    return {
        name: (
            1 + 0.1 * rng.standard_normal(shape) if name.endswith("norm") else _matrix(rng, shape)
        )
        .astype(np.float32)
        .astype(np.float64)
        for name, shape in expected_shapes(config).items()
    }


def toy_network(
    config: ModelConfig = TOY, seed: int = 0, kernels: Kernels = TORCH, device: str = "cpu"
) -> Llama:
    """The toy as the engine's network, in float64."""
    weights = _Taken(toy_weights(config, seed), torch.device(device))
    return Llama(config, weights, torch.float64, kernels)


def toy_executor(limits: Limits, network: Llama) -> Executor:
    """The toy behind the contract of an Executor. The network is not changed and can be shared."""
    config = WorkerConfig(
        dtype="float64",
        block_size=limits.block_size,
        kv_blocks=limits.num_blocks,
        max_slots=limits.max_slots,
        max_model_len=limits.max_model_len,
        max_batch_tokens=limits.max_batch_tokens,
    )
    return TorchExecutor(network, config)


class ToyExecutor(TorchExecutor):
    """The toy, to be named in a worker's configuration. Options: seed, vocab_size."""

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        """Reads no file, and config.dtype does not count."""
        options = dict(config.executor_options)
        seed, vocab_size = (
            int(options.pop("seed", 0)),
            int(options.pop("vocab_size", TOY.vocab_size)),
        )
        if options:
            raise ConfigError(f"executor_options: ToyExecutor has no {sorted(options)}")
        torch.set_num_threads(config.threads or 1)
        progress("toy", 1, 1)
        shape = replace(TOY, vocab_size=vocab_size)
        return cls(toy_network(shape, seed, cls.choose_kernels(config, "cpu")), config)


class TritonToyExecutor(ToyExecutor):
    """The toy on Triton's kernels, interpreted."""

    @staticmethod
    def choose_kernels(config: WorkerConfig, device: str) -> Kernels:
        """The operators in Triton."""
        return triton_kernels(device)


class _Taken:
    def __init__(self, weights: ToyWeights, device: torch.device) -> None:
        self._weights = weights
        self._device = device

    def take(self, *names: str) -> Tensor:
        taken = [torch.from_numpy(self._weights[name]) for name in names]
        return torch.cat(taken).to(self._device)


def _matrix(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    drawn: NDArray[np.float64] = rng.standard_normal(shape) * 1.5 / np.sqrt(shape[-1])
    return drawn
