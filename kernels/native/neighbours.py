"""What engines of several processes tell each other, so that together they take as many cores as there are."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import POINTER, c_double
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.kernels.native.device import as_ints
from optimist.kernels.native.library import library

PLACE = Path("/proc")
"""whose root is locked: one for all processes that know each other by number"""

BYTES = 1024
"""of each process: those of number p begin at p * BYTES, and as many are locked as it has threads that compute"""


def tell(place: Path = PLACE) -> bool:
    """Whether the system lets processes tell each other here."""
    return bool(library().native_neighbours_tell(bytes(place)))


def threads_of_others(place: Path = PLACE, own: int = 0) -> float:
    """That compute in other processes now; of a process that may use other cores too, a part.

    own: threads that compute here meanwhile, and are not counted.
    """
    return float(library().native_neighbours_compute(bytes(place), own))


def parts_taken(threads: int, others: Sequence[float], at: Sequence[float]) -> list[int]:
    """How many of its threads an engine takes for each step, [N], when it finds so many of others, [N], at
    so many seconds, [N].
    """
    found, seconds = np.array(others, np.float64), np.array(at, np.float64)
    taken = np.zeros(len(others), np.int32)
    library().native_neighbours_part(
        threads, len(others), _doubles(found), _doubles(seconds), as_ints(taken)
    )
    return [int(count) for count in taken]


def _doubles(values: NDArray[np.float64]) -> Any:
    return values.ctypes.data_as(POINTER(c_double))
