"""From a model file to a network on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from optimist.kernels.choice import TORCH
from optimist.kernels.contract import Kernels
from optimist.messages.errors import ModelError
from optimist.models.llama import Llama
from optimist.models.source import WeightSource, open_source

Progress = Callable[[str, int, int], None]
"""Told (what, done, total)."""

CPU = torch.device("cpu")


def load_model(
    path: str | Path,
    dtype: torch.dtype,
    progress: Progress | None = None,
    kernels: Kernels = TORCH,
    device: torch.device = CPU,
) -> Llama:
    """The network of a .gguf file or a Hugging Face folder, its weights in `dtype` on a device, on these kernels.

    progress: told ("weights", tensors read, tensors). Raises ModelError, naming the file and the
    tensor, when the file is damaged, unsupported, or has a tensor that the network does not take.
    """
    with open_source(path) as source, _one_thread():
        weights = FileWeights(source, dtype, progress or (lambda what, done, total: None), device)
        model = Llama(source.config, weights, dtype, kernels)
        weights.finish()
    return model


@contextmanager
def _one_thread() -> Iterator[None]:
    """Pieces are too small to share: on a busy machine threads wait for each other, ten times as long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class FileWeights:
    """Tensors of a file, converted piece by piece while a piece is in cache; each is taken once."""

    def __init__(
        self,
        source: WeightSource,
        dtype: torch.dtype,
        progress: Progress,
        device: torch.device = CPU,
    ) -> None:
        self._device = device
        self._source = source
        self._dtype = dtype
        self._progress = progress
        self._left = dict.fromkeys(source.names())
        self._total = len(self._left)

    def take(self, *names: str) -> Tensor:
        """The rows of these tensors one behind the other. Raises ModelError for one taken before."""
        shapes = [self._source.shape(name) for name in names]
        rows = sum(shape[0] for shape in shapes)
        out = torch.empty((rows, *shapes[0][1:]), dtype=self._dtype)
        first = 0
        for name, shape in zip(names, shapes, strict=True):
            self._claim(name)
            for start, piece in self._source.chunks(name):
                out[first + start : first + start + len(piece)] = torch.from_numpy(piece)
            first += shape[0]
        self._progress("weights", self._total - len(self._left), self._total)
        return out.to(self._device)

    def finish(self) -> None:
        """Raise ModelError unless every tensor of the file has gone into the network."""
        if self._left:
            raise ModelError(f"{self._source.path}: the network left out {', '.join(self._left)}")

    def _claim(self, name: str) -> None:
        if name not in self._left:
            raise ModelError(f"{self._source.path}: {name} is taken twice")
        del self._left[name]
