"""Where tensors live, and how data gets there and back without anybody waiting.

On a GPU a step only enqueues: uploads from pinned memory, kernels, and the copies of its results, which
a stream of their own makes beside the kernels of the next step. Whoever wants a result waits for the
event behind its copy, and for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.kernels.sync_check import begin_readback, readback

Tensors = tuple[Tensor, ...]

PART = 16
"""bytes: kernels load as many at once where they know that a tensor begins at such a multiple"""


def upload(values: NDArray[Any], device: torch.device) -> Tensor:
    """Host values on the device. On a CPU they share memory; a GPU gets them as they are now.

    The copy is enqueued on the current stream from pinned memory, which is used again once it is over.
    """
    host = torch.from_numpy(values)
    return host if device.type == "cpu" else _enqueued(host, device)


def upload_together(values: Sequence[NDArray[Any]], device: torch.device) -> list[Tensor]:
    """Each of these on the device, for which a GPU makes one copy: they are parts of it.

    Parts begin at multiples of PART bytes, as what kernels are compiled for does.
    """
    if device.type == "cpu":
        return [torch.from_numpy(one) for one in values]
    starts = np.cumsum([0, *(-(-one.nbytes // PART) * PART for one in values)])
    host = np.zeros(int(starts[-1]), np.uint8)
    for start, one in zip(starts, values, strict=False):
        host[start : start + one.nbytes] = np.ascontiguousarray(one).reshape(-1).view(np.uint8)
    there = _enqueued(torch.from_numpy(host), device)
    return [
        there[start : start + one.nbytes].view(_dtype(one)).view(one.shape)
        for start, one in zip(starts.tolist(), values, strict=False)
    ]


def _dtype(values: NDArray[Any]) -> torch.dtype:
    return torch.from_numpy(np.zeros(0, values.dtype)).dtype


def _enqueued(host: Tensor, device: torch.device) -> Tensor:
    if not host.numel():
        return torch.empty(host.shape, dtype=host.dtype, device=device)
    return host.pin_memory().to(device, non_blocking=True)


class Reading(Protocol):
    """Results on their way to the host."""

    def wait(self) -> list[NDArray[Any]]:
        """Block until they are there. Called once, from any thread."""
        ...


class Device:
    """A CPU: what is enqueued has been computed on return.

    torch: as tensors name it. asynchronous: whether it has only been enqueued. captures: whether it gains
    by captured steps.
    """

    asynchronous = False
    captures = False

    def __init__(self, device: torch.device) -> None:
        self.torch = device

    def step(self) -> AbstractContextManager[Any]:
        """What this thread enqueues meanwhile goes, in order, behind what the device has to do."""
        return nullcontext()

    def read(self, tensors: Sequence[Tensor]) -> Reading:
        """Begin to read results of the step that is being enqueued."""
        return _Here(tensors)

    def capture(self, run: Callable[[], Tensors]) -> tuple[Callable[[], None], Tensors]:
        """What enqueues the kernels of `run` again, and the tensors that they write each time.

        `run` must read nothing that is not on the device, and what it reads must stay where it is.
        """
        out = run()

        def replay() -> None:
            for old, new in zip(out, run(), strict=True):
                old.copy_(new)

        return replay, out

    def room(self, of: Callable[[int], int]) -> int | None:
        """Bytes that a cache may take by itself, `of` those that are free; None: what a CPU is given."""
        return None

    def settle(self) -> None:
        """Wait until nothing is left to do: at start and end, never in a step."""


class _Here:
    """Results that are there: a copy is made when they are asked for."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors

    def wait(self) -> list[NDArray[Any]]:
        return [readback(tensor) for tensor in self._tensors]


class Gpu(Device):
    """One stream that computes and one that copies results. cuda: torch.cuda, or what stands in for it."""

    asynchronous = True
    captures = True

    def __init__(self, device: torch.device, cuda: Any = torch.cuda) -> None:
        super().__init__(device)
        self._cuda = cuda
        self._compute, self._copy = cuda.Stream(device), cuda.Stream(device)
        self._pool: Any = None

    def step(self) -> AbstractContextManager[Any]:
        stream: AbstractContextManager[Any] = self._cuda.stream(self._compute)
        return stream

    def read(self, tensors: Sequence[Tensor]) -> Reading:
        computed, copied = self._cuda.Event(), self._cuda.Event(blocking=True)
        computed.record(self._compute)
        self._copy.wait_event(computed)
        with self._cuda.stream(self._copy):
            copies = [begin_readback(tensor) for tensor in tensors]
        for tensor in tensors:
            # Their memory is not given to the next step before it has been copied.
            tensor.record_stream(self._copy)
        copied.record(self._copy)
        return _Copies(copies, copied)

    def capture(self, run: Callable[[], Tensors]) -> tuple[Callable[[], None], Tensors]:
        # Memory that `run` reads may have been filled on another stream.
        self.settle()
        with self.step():
            # Once beforehand: kernels are compiled, and libraries set up, where nothing is recorded.
            run()
        self.settle()
        graph = self._cuda.CUDAGraph()
        # Torch waits for the current device before it records; what other threads of the process, such as
        # another engine, do meanwhile on theirs is no part of it.
        recording = self._cuda.graph(
            graph, pool=self._pool, stream=self._compute, capture_error_mode="thread_local"
        )
        with self._cuda.device(self.torch), recording:
            out = run()
        self._pool = graph.pool()
        replay: Callable[[], None] = graph.replay
        return replay, out

    def room(self, of: Callable[[int], int]) -> int | None:
        self.settle()
        # What was freed while weights were read is torch's still, and would not count.
        self._cuda.empty_cache()
        return of(self._cuda.mem_get_info(self.torch)[0])

    def settle(self) -> None:
        self._cuda.synchronize(self.torch)


class _Copies:
    """Copies in pinned memory. copied: the event behind the last of them."""

    def __init__(self, copies: list[Tensor], copied: Any) -> None:
        self._copies = copies
        self._copied = copied

    def wait(self) -> list[NDArray[Any]]:
        self._copied.synchronize()
        return [np.array(copy.numpy()) for copy in self._copies]


def current(name: str) -> AbstractContextManager[Any]:
    """Where this thread allocates pinned memory and captures meanwhile: no other GPU is touched."""
    return nullcontext() if name == "cpu" else torch.cuda.device(name)


def device_of(name: str) -> Device:
    """The device that `cpu`, `cuda` or `cuda:N` names."""
    device = torch.device(name)
    return Device(device) if device.type == "cpu" else Gpu(device)
