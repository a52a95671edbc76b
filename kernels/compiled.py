"""Dense operators compiled by torch: norms, gate and rotation, each of which is one kernel then."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

import torch

from optimist.kernels.contract import Kernels
from optimist.kernels.sync_check import VARIABLE, mode
from optimist.messages.errors import ConfigError

DENSE = ("rms_norm", "add_rms_norm", "rope_", "silu_and_mul")

CXX = ("g++", "clang++")
"""compilers that inductor looks for on a CPU, unless CXX names another"""


def compiled(kernels: Kernels, backend: str, device: str, why_no_triton: str) -> Kernels:
    """The same operators, of which the dense ones are compiled when they first run.

    backend: of torch.compile, `inductor` or `aot_eager`, which compiles nothing and is for tests.
    why_no_triton: with which inductor would compile for a GPU, or "". Raises ConfigError where inductor
    would find no compiler, and under the sync check, which sees operators one by one.
    """
    if (check := mode()) != "off":
        raise ConfigError(
            f"worker.torch_compile: {backend} and {VARIABLE}={check} do not go together; leave one away"
        )
    if backend == "inductor" and (why := why_no_triton if device != "cpu" else _no_compiler()):
        raise ConfigError(f"worker.torch_compile: inductor cannot compile for {device}: {why}")
    made: dict[str, Any] = {name: _made(getattr(kernels, name), backend) for name in DENSE}
    return kernels._replace(**made)


def _made(operator: Callable[..., Any], backend: str) -> Callable[..., Any]:
    # Tokens of a step differ: sizes stay open.
    found: Callable[..., Any] = torch.compile(
        operator, backend=backend, dynamic=True, fullgraph=True
    )
    return found


def _no_compiler() -> str:
    named = os.environ.get("CXX")
    if any(shutil.which(one) for one in ((named,) if named else CXX)):
        return ""
    return f"found no C++ compiler: {named or ' or '.join(CXX)}"
