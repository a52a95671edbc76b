"""Which executor a worker runs: the one that is named, or the fastest that can."""

from __future__ import annotations

import logging
from pathlib import Path

from optimist.actors.config import WorkerConfig
from optimist.actors.contract import native_lacks
from optimist.kernels import gpus, triton_interpreter
from optimist.kernels.native.library import missing
from optimist.messages.errors import ConfigError

_log = logging.getLogger("optimist")

TORCH = "optimist.actors.worker.torch_executor:TorchExecutor"
NATIVE = "optimist.actors.worker.native_executor:NativeExecutor"
TRITON = "optimist.actors.worker.triton_executor:TritonExecutor"

DOUBLE = "triton's kernels are compiled for bfloat16 and float32, not for float64"
"""numbers that only its interpreter multiplies"""


def executor_path(config: WorkerConfig) -> str:
    """`module:Class` of the executor. Loads none of them, and torch only where there may be a GPU.

    `auto` is triton on a GPU that its kernels were checked for, torch on another; on a CPU native
    where its library was built and runs this dtype, block size and drafting, else torch.
    A CPU that computes with torch because of an option says so in the log. Raises ConfigError for `native`
    without a library or on a GPU, for `triton` without Triton, for an option that the executor would
    ignore, and for a device or a draft model that is not there.
    """
    name = config.executor
    if name not in ("auto", "native", "torch", "triton"):
        return name
    _check_draft(config)
    # The native library is asked for by name on machines with a GPU too.
    device = (
        "cpu" if (name, config.device) == ("native", "auto") else gpus.chosen_device(config.device)
    )
    if name == "auto":
        name = _fastest(config, device)
    _check_effects(config, name, device)
    if name == "native":
        if device != "cpu":
            raise ConfigError(f"worker.executor: native computes on a CPU, got device {device}")
        if why := missing():
            raise ConfigError(f"worker.executor: {why}")
        return NATIVE
    if name == "triton":
        look = triton_interpreter.missing if device == "cpu" else triton_interpreter.cannot_compile
        if why := look():
            raise ConfigError(f"worker.executor: {why}, or use torch")
        if device != "cpu" and config.dtype == "float64":
            raise ConfigError(f"worker.executor: {DOUBLE}, or use torch")
        return TRITON
    return TORCH


def _check_draft(config: WorkerConfig) -> None:
    """Raise ConfigError for a model that drafts and is not there, before anything else is said of it."""
    path = config.draft_model
    if config.proposer == "draft-model" and path and not Path(path).exists():
        raise ConfigError(
            f"worker.draft_model: expected a .gguf file or a Hugging Face folder, found nothing at {path}"
        )


def _fastest(config: WorkerConfig, device: str) -> str:
    if device != "cpu":
        why = triton_interpreter.cannot_compile() or (DOUBLE if config.dtype == "float64" else "")
        chosen, reason = gpus.kernels_for(device, gpus.found(), why)
        if chosen == "torch":
            _log.warning(
                "%s computes with torch and its attention, more slowly: %s", device, reason
            )
        return chosen
    why = native_lacks(config)
    if why and not missing():
        _log.warning("torch computes here, more slowly than the native library: native and %s", why)
    return "torch" if why or missing() else "native"


def _check_effects(config: WorkerConfig, name: str, device: str) -> None:
    """Every option that is given has an effect with this executor on this device."""
    needed = {"fp8": "triton", "int8": "native"}.get(config.kv_dtype, name)
    of_native = f"needs the native executor{_why_not(config)}"
    of_needed = f"needs the {needed} executor, got {name!r}"
    of_gpu = f"is for a GPU, and the device is {device}"
    refused = (
        ("quant", config.quant != "none" and name == "torch", _narrow(config)),
        ("kv_dtype", name != needed, of_native if needed == "native" else of_needed),
        (
            "torch_compile",
            config.torch_compile != "off" and name != "torch",
            f"needs the torch executor, got {name!r}",
        ),
        ("packed_cache", config.packed_cache and name != "native", of_native),
        ("reserve_mb", config.reserve_mb is not None and device == "cpu", of_gpu),
        ("graphs", not config.graphs and device == "cpu", of_gpu),
    )
    for option, clashes, why in refused:
        if clashes:
            raise ConfigError(f"worker.{option}: {getattr(config, option)} {why}")
    if config.kv_dtype == "bfloat16" != config.dtype and name != "native":
        raise ConfigError(
            f"worker.kv_dtype: the {name} executor expects that of dtype, {config.dtype}, got bfloat16"
        )


def _narrow(config: WorkerConfig) -> str:
    return f"needs the native or the triton executor{_why_not(config)}"


def _why_not(config: WorkerConfig) -> str:
    if config.executor != "auto":
        return f", got {config.executor!r}"
    if why := native_lacks(config):
        return f": native and {why}"
    return f": {missing() or 'torch computes on this device'}"
