"""How many threads can compute at once here."""

from __future__ import annotations

import math
import os
from pathlib import Path

from optimist.kernels.native.library import MOST_THREADS
from optimist.messages.errors import ConfigError


def processors(root: Path = Path("/")) -> int:
    """Cores that this process may use: two hardware threads of one core count once, and a share of
    processor time that a container is limited to counts as so many cores. At least 1.
    """
    allowed = os.sched_getaffinity(0)
    cores = len({_siblings(root, number) for number in allowed})
    quota = _quota(root)
    return cores if quota == math.inf else max(1, min(cores, math.ceil(quota)))


def threads_of(given: int | None) -> int:
    """Of the native library: as many as are given, else one for each core, as far as it takes them.

    Raises ConfigError for more than it takes.
    """
    if given is not None and given > MOST_THREADS:
        raise ConfigError(f"worker.threads: native expects at most {MOST_THREADS}, got {given}")
    return given or min(processors(), MOST_THREADS)


def _siblings(root: Path, number: int) -> str:
    """The hardware threads of a processor's core, as the system writes them."""
    path = root / f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list"
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return str(number)


def _quota(root: Path) -> float:
    """Processors' worth of time that the group of this process gets, without limit: infinity."""
    try:
        limit, period = (root / "sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return math.inf if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        return math.inf
