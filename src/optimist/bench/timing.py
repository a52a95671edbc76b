"""How long something takes on a device: by its own events on a GPU, by the host's clock on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from optimist.kernels.device import Device

Run = Callable[[], Tensor]

REPEATS, LONGEST_S = 20, 2.0
"""runs on a CPU, and seconds after which no further one begins; on a GPU, passes and seconds likewise"""

COPIES, CACHES = 16, 2
"""of what is read, at most, and how often they exceed the last cache of a GPU"""


def copies(size: int, device: torch.device, cuda: Any = torch.cuda) -> int:
    """How many copies of `size` bytes leave nothing of the first in a GPU's cache; 1 on a CPU."""
    if device.type == "cpu":
        return 1
    cache = int(cuda.get_device_properties(device).L2_cache_size)
    return min(COPIES, 1 + -(-CACHES * cache // max(1, size)))


def timed(runs: Sequence[Run], device: Device, cuda: Any = torch.cuda) -> tuple[Tensor, float]:
    """What the first yields, and seconds of a run; all of them do the same with memory of their own.

    On a CPU of the fastest run, on a GPU of all on average.
    """
    if device.asynchronous:
        return _by_events(runs, device, cuda)
    out, times = runs[0](), list[float]()
    begun = perf_counter()
    while not times or (len(times) < REPEATS and perf_counter() - begun < LONGEST_S):
        start = perf_counter()
        runs[0]()
        times.append(perf_counter() - start)
    return out, min(times)


def _by_events(runs: Sequence[Run], device: Device, cuda: Any) -> tuple[Tensor, float]:
    # Captured, as an engine's steps are: the host's launches would take longer than small kernels.
    replay, outs = device.capture(lambda: tuple(run() for run in runs))

    def seconds(passes: int) -> float:
        with device.step():
            begun, ended = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            begun.record()
            for _ in range(passes):
                replay()
            ended.record()
        ended.synchronize()
        return float(begun.elapsed_time(ended)) / 1e3

    seconds(1)
    passes = max(1, min(REPEATS, int(LONGEST_S / max(seconds(1), 1e-6))))
    return outs[0], seconds(passes) / (passes * len(runs))
