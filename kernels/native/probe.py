"""How fast this machine reads memory and multiplies, as the library's own kernels do."""

from __future__ import annotations

import ctypes

import numpy as np

from optimist.kernels.native.library import instruction_set, library
from optimist.kernels.native.shapes import Format
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


def operations(kind: Format, threads: int, rounds: int = 1 << 18, *, isa: str = "") -> float:
    """Multiplications and additions a second that threads do together out of registers, as linears of BF16
    or INT8 do them. rounds: of some 24 instructions, eight times in each thread.

    Raises ConfigError where threads do not suffice.
    """
    name = instruction_set(isa).encode()
    products: float = library().native_probe_multiply(name, threads, kind, rounds)
    if not products:
        raise ConfigError(f"expected {threads} threads, got fewer")
    return 2 * products
