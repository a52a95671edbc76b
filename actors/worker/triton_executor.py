"""The torch executor on Triton's kernels."""

from __future__ import annotations

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.kernels.choice import triton_kernels
from optimist.kernels.contract import Kernels


class TritonExecutor(TorchExecutor):
    """Runs what TorchExecutor runs. On a CPU the kernels are interpreted, for tests: minutes a page."""

    @staticmethod
    def choose_kernels(config: WorkerConfig, device: str) -> Kernels:
        """The operators in Triton. Raises ConfigError where it is not installed."""
        return triton_kernels(device, quant=config.quant, kv_dtype=config.kv_dtype)
