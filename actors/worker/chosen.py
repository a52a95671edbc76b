"""Which executor a worker runs: the one that is named, or the fastest that can."""

from __future__ import annotations

from optimist.actors.config import WorkerConfig
from optimist.kernels import triton_interpreter
from optimist.kernels.native.library import missing
from optimist.messages.errors import ConfigError

TORCH = "optimist.actors.worker.torch_executor:TorchExecutor"
NATIVE = "optimist.actors.worker.native_executor:NativeExecutor"
TRITON = "optimist.actors.worker.triton_executor:TritonExecutor"

TILE = 16
"""tokens that lie together in the native cache: its blocks are multiples of it"""


def executor_path(config: WorkerConfig) -> str:
    """`module:Class` of the executor. Loads neither of them, and no torch.

    `auto` is native where its library was built and runs this dtype, block size and drafting, else torch.
    Raises ConfigError for `native` without a library, for `triton` without Triton, and for a
    quantisation that both torch and Triton would ignore.
    """
    name = config.executor
    if name not in ("auto", "native", "torch", "triton"):
        return name
    if name == "auto":
        name = "native" if _native_can(config) and not missing() else "torch"
    if name == "native":
        if why := missing():
            raise ConfigError(f"worker.executor: {why}")
        return NATIVE
    if config.quant not in ("none", "auto"):
        raise ConfigError(
            f"worker.quant: {config.quant} needs the native executor{_why_not(config)}"
        )
    if name == "triton":
        if why := triton_interpreter.missing():
            raise ConfigError(f"worker.executor: {why}, or use executor torch")
        return TRITON
    return TORCH


def _native_can(config: WorkerConfig) -> bool:
    on_host = config.proposer == "none" and config.verify == "sample"
    return on_host and config.dtype == "bfloat16" and not config.block_size % TILE


def _why_not(config: WorkerConfig) -> str:
    if config.executor != "auto":
        return f", got {config.executor!r}"
    return f": {missing() or 'it runs bfloat16 in blocks of a multiple of 16 tokens, drafts from the host'}"
