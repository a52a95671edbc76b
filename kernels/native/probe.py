"""How fast this machine reads memory, as the library's own kernels read it."""

from __future__ import annotations

import ctypes

import numpy as np

from optimist.kernels.native.library import instruction_set, library
from optimist.messages.errors import ConfigError


def read_seconds(size: int, threads: int, passes: int, *, isa: str = "") -> list[float]:
    """Seconds of each of `passes` over `size` bytes, which threads share in equal parts.

    Raises ConfigError where memory or threads do not suffice.
    """
    seconds = np.zeros(passes)
    name = instruction_set(isa).encode()
    pointer = seconds.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    if library().native_probe_read(name, threads, size, passes, pointer):
        raise ConfigError(f"expected memory for {size} bytes and {threads} threads, got less")
    found: list[float] = seconds.tolist()
    return found
