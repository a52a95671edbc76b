"""How fast this machine reads memory and multiplies, as the library's own kernels do."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np

from optimist.kernels.native.library import instruction_set, library
from optimist.kernels.native.shapes import Format
from optimist.messages.errors import ConfigError


class Pass(NamedTuple):
    """Over memory. processors: seconds that all threads of the process computed meanwhile."""

    seconds: float
    processors: float


def read_passes(size: int, threads: int, passes: int, *, isa: str = "") -> list[Pass]:
    """Each of `passes` over `size` bytes, which threads share in equal parts.

    Raises ConfigError where memory or threads do not suffice.
    """
    seconds, processors = np.zeros(passes), np.zeros(passes)
    name = instruction_set(isa).encode()
    pointers = (
        each.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for each in (seconds, processors)
    )
    if library().native_probe_read(name, threads, size, passes, *pointers):
        raise ConfigError(f"expected memory for {size} bytes and {threads} threads, got less")
    return [Pass(*each) for each in zip(seconds.tolist(), processors.tolist(), strict=True)]


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
