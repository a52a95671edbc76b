"""Memory that was freed, back to the system."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


def give_back() -> None:
    """Let the C library return the pages of what was freed: glibc keeps them for each thread that had some.

    Loading a model frees as much as it keeps. Nothing happens where the library cannot. It takes some
    milliseconds and holds no lock of Python's.
    """
    if (trim := _trim()) is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return found
