"""Which executor a worker runs: the one that is named, or the fastest that can."""

from __future__ import annotations

from optimist.actors.config import WorkerConfig
from optimist.kernels import gpus, triton_interpreter
from optimist.kernels.native.library import missing
from optimist.messages.errors import ConfigError

TORCH = "optimist.actors.worker.torch_executor:TorchExecutor"
NATIVE = "optimist.actors.worker.native_executor:NativeExecutor"
TRITON = "optimist.actors.worker.triton_executor:TritonExecutor"

TILE = 16
"""tokens that lie together in the native cache: its blocks are multiples of it"""


def executor_path(config: WorkerConfig) -> str:
    """`module:Class` of the executor. Loads none of them, and torch only where there may be a GPU.

    `auto` is triton on a GPU that its kernels were checked for, torch on another; on a CPU native
    where its library was built and runs this dtype, block size and drafting, else torch.
    Raises ConfigError for `native` without a library or on a GPU, for `triton` without Triton, for a
    quantisation or cache that the executor would ignore, and for a device that is not there.
    """
    name = config.executor
    if name not in ("auto", "native", "torch", "triton"):
        return name
    # The native library is asked for by name on machines with a GPU too.
    device = (
        "cpu" if (name, config.device) == ("native", "auto") else gpus.chosen_device(config.device)
    )
    if name == "auto":
        name = _fastest(config, device)
    _check_narrow(config, name)
    if name == "native":
        if device != "cpu":
            raise ConfigError(f"worker.executor: native computes on a CPU, got device {device}")
        if why := missing():
            raise ConfigError(f"worker.executor: {why}")
        return NATIVE
    if name == "triton":
        if why := triton_interpreter.missing():
            raise ConfigError(f"worker.executor: {why}, or use torch")
        return TRITON
    return TORCH


def _fastest(config: WorkerConfig, device: str) -> str:
    if device != "cpu":
        return gpus.kernels_for(device, gpus.found(), triton_interpreter.missing())[0]
    return "native" if _native_can(config) and not missing() else "torch"


def _check_narrow(config: WorkerConfig, name: str) -> None:
    if config.quant not in ("none", "auto") and name == "torch":
        raise ConfigError(
            f"worker.quant: {config.quant} needs the native or the triton executor{_why_not(config)}"
        )
    needed = {"fp8": "triton", "int8": "native"}.get(config.kv_dtype, name)
    if name != needed:
        raise ConfigError(
            f"worker.kv_dtype: {config.kv_dtype} needs the {needed} executor, got {name!r}"
        )
    if config.kv_dtype == "bfloat16" != config.dtype and name != "native":
        raise ConfigError(
            f"worker.kv_dtype: the {name} executor expects that of dtype, {config.dtype}, got bfloat16"
        )

    if config.packed_cache and name != "native":
        raise ConfigError(
            f"worker.packed_cache: {config.packed_cache!r} needs the native executor{_why_not(config)}"
        )


def _native_can(config: WorkerConfig) -> bool:
    on_host = config.proposer == "none" and config.verify == "sample"
    return on_host and config.dtype == "bfloat16" and not config.block_size % TILE


def _why_not(config: WorkerConfig) -> str:
    if config.executor != "auto":
        return f", got {config.executor!r}"
    return f": {missing() or 'it runs bfloat16 in blocks of a multiple of 16 tokens, drafts from the host'}"
