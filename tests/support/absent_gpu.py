"""A GPU that is not here: tensors that have a shape and a device and no values, streams that keep a diary.

A tensor of the CPU among them is refused by torch, as a GPU would; so is whoever asks for a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily

from optimist.kernels import device

GPU = torch.device("lazy:0")
"""a name that torch can index tensors of in every build, and that nobody has"""


class Diary:
    """Stands in for torch.cuda. entries: what was asked of it, in order."""

    def __init__(self, free: int = 1 << 34) -> None:
        self.entries: list[str] = []
        self.free = free
        self.current: torch.device | None = None
        self._names = iter(["compute", "copy"])

    def Stream(self, _: torch.device) -> AbsentStream:
        return AbsentStream(next(self._names), self.entries)

    def Event(self, *, blocking: bool = False) -> AbsentEvent:
        return AbsentEvent("copied" if blocking else "computed", self.entries)

    @contextmanager
    def stream(self, stream: AbsentStream) -> Iterator[None]:
        self.entries.append(f"{stream.name}: begin")
        yield
        self.entries.append(f"{stream.name}: end")

    def CUDAGraph(self) -> AbsentGraph:
        return AbsentGraph(self.entries)

    @contextmanager
    def device(self, device: torch.device) -> Iterator[None]:
        self.current = device
        yield
        self.current = None

    @contextmanager
    def graph(
        self, graph: AbsentGraph, *, pool: object, stream: AbsentStream, capture_error_mode: str
    ) -> Iterator[None]:
        assert self.current == GPU, "torch waits for the current device: name the one that captures"
        assert capture_error_mode == "thread_local", "other engines of the process go on"
        self.entries.append(f"{stream.name}: capture into {pool}")
        yield

    def synchronize(self, _: torch.device) -> None:
        self.entries.append("WAIT for everything")

    def empty_cache(self) -> None:
        self.entries.append("give back")

    def mem_get_info(self, _: torch.device) -> tuple[int, int]:
        return self.free, 1 << 40


class AbsentStream:
    def __init__(self, name: str, entries: list[str]) -> None:
        self.name, self._entries = name, entries

    def wait_event(self, event: AbsentEvent) -> None:
        self._entries.append(f"{self.name}: behind {event.name}")


class AbsentEvent:
    def __init__(self, name: str, entries: list[str]) -> None:
        self.name, self._entries = name, entries

    def record(self, stream: AbsentStream) -> None:
        self._entries.append(f"{stream.name}: {self.name}")

    def synchronize(self) -> None:
        self._entries.append(f"WAIT for {self.name}")


class AbsentGraph:
    def __init__(self, entries: list[str]) -> None:
        self._entries = entries

    def pool(self) -> str:
        return "pool"

    def replay(self) -> None:
        self._entries.append("replay")


@contextmanager
def absent_gpu(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Uploads and readbacks between here and a GPU that is not. Only zeros arrive here."""

    def enqueued(host: Tensor, target: torch.device) -> Tensor:
        return torch.empty(host.shape, dtype=host.dtype, device=target)

    def copied(tensor: Tensor) -> Tensor:
        assert tensor.device == GPU
        with unset_fake_temporarily():
            return torch.zeros(tensor.shape, dtype=tensor.dtype)

    def kept(tensor: Tensor, stream: Any) -> None:
        stream._entries.append(f"{stream.name}: keeps {str(tensor.dtype)[6:]}")  # noqa: SLF001

    patch.setattr(device, "_enqueued", enqueued)
    patch.setattr(device, "begin_readback", copied)
    patch.setattr(FakeTensor, "record_stream", kept, raising=False)
    with FakeTensorMode():
        yield
