"""What Triton kernels share: how they are launched, and small device functions.

Names in kernels: `i_` a program or loop index, `o_` offsets, `m_` a mask, `p_` pointers, `b_` a block of
values, `s_` a stride. Capitals are known when a kernel is compiled. All arithmetic is float32, or
float64 where the tensors are. What differs from step to step is not specialised: no step waits for a
compiler because it has one row, or a multiple of 16.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from optimist.kernels.sync_check import kernel_call
from optimist.kernels.triton_interpreter import interpreting

WHOLE, IN_THREE = "ieee", "tf32x3"
"""see `product`"""


class Launch(NamedTuple):
    """A kernel as it was asked for. options: warps, stages and constants by name."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    options: dict[str, Any]


class _Recorder(threading.local):
    launches: list[Launch] | None = None


_recorder = _Recorder()
_one_program = threading.Lock()


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    """Start a kernel on the current stream, or nothing where the grid is empty."""
    if _recorder.launches is not None:
        _recorder.launches.append(Launch(kernel, grid, arguments, options))
    elif 0 in grid:
        return
    elif interpreting():
        # The interpreter's state belongs to the process, and it computes with numpy, which warns.
        with _one_program, np.errstate(all="ignore"), kernel_call():
            kernel[grid](*arguments, **options)
    else:
        with kernel_call():
            kernel[grid](*arguments, **options)


@contextlib.contextmanager
def recorded() -> Iterator[list[Launch]]:
    """Launches of this thread, which are listed instead of run."""
    found: list[Launch] = []
    _recorder.launches = found
    try:
        yield found
    finally:
        _recorder.launches = None


def power_of_2(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << max(0, n - 1).bit_length()


def divided(n: int, by: int) -> int:
    """How many pieces of size `by` hold n."""
    return -(-n // by)


def strides(x: Tensor) -> tuple[int, ...]:
    """Of all but the last dimension, whose values must be neighbours. Raises ValueError where they are not."""
    if x.stride(-1) != 1 and x.shape[-1] > 1:
        raise ValueError(f"expected a last dimension of stride 1, got strides {x.stride()}")
    return x.stride()[:-1]


def product(dtype: torch.dtype) -> str:
    """How matrices of this dtype are multiplied.

    NVIDIA's matrix instructions take float32 with 10 bits behind the point: of numbers cut into two of
    these, three products come to float32 within 2^-21. AMD's take float32 whole.
    """
    nvidia = torch.version.hip is None
    return IN_THREE if dtype == torch.float32 and nvidia else WHOLE


@triton.jit
def wide(b_x: tl.tensor) -> tl.tensor:
    """In the dtype that kernels compute in."""
    return b_x if b_x.dtype == tl.float64 else b_x.to(tl.float32)
