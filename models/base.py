"""What a source of weights promises, whatever file is behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import prod
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from optimist.models.config import ModelConfig
from optimist.models.stored_file import StoredFile

CHUNK = 1 << 18
"""weights handed out at a time by `chunks`: small enough to stay in a core's cache"""


class StoredMatrix(NamedTuple):
    """A matrix as its file holds it: no copy, gone when the source is closed.

    kind: as `stored_type` says. rows: bytes, [rows, bytes of a row], read-only. order: which of them
    each row of the matrix is, [rows]; None: as they are.
    """

    kind: str
    rows: NDArray[np.uint8]
    order: NDArray[np.intp] | None


class WeightSource(ABC):
    """A validated model file, open for reading. Weights are read when asked for, as float32.

    Names and shapes are those of `expected_shapes(config)`, and nothing else is there. q and k rows
    are in the rotate-half order whatever the file's order is. Close it, or use it in a `with`.
    """

    def __init__(self, path: Path, config: ModelConfig) -> None:
        self.path = path
        self.config = config
        self._shapes = expected_shapes(config)

    def names(self) -> tuple[str, ...]:
        """Every tensor, in the order in which the network meets them."""
        return tuple(self._shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        """[out, in] of a matrix, [n] of a norm or bias. Raises KeyError for an unknown name."""
        return self._shapes[name]

    @abstractmethod
    def stored_type(self, name: str) -> str:
        """How the file stores a tensor, such as `Q4_1` or `BF16`."""

    @abstractmethod
    def read(self, name: str, start: int, out: NDArray[np.float32]) -> None:
        """Fill `out`, [rows, in] (or [rows] of a vector) and contiguous, from row `start` on."""

    @abstractmethod
    def matrix(self, name: str) -> StoredMatrix:
        """The bytes of a matrix, for those who know the types: quantised blocks as they are."""

    @abstractmethod
    def files(self) -> tuple[StoredFile, ...]:
        """The files that hold the weights, always in the same order; gone when the source is closed."""

    @abstractmethod
    def close(self) -> None:
        """Give the file back. Arrays that were read stay valid."""

    def tensor(self, name: str) -> NDArray[np.float32]:
        """A whole tensor in an array of its own."""
        out = np.empty(self.shape(name), np.float32)
        self.read(name, 0, out)
        return out

    def chunks(self, name: str) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """A tensor in pieces: (first row, rows). The array is reused: copy before the next piece.

        The fast way into another dtype: a piece is converted while it is in cache.
        """
        shape = self.shape(name)
        rows = max(1, CHUNK // prod(shape[1:]))
        buffer = np.empty((min(rows, shape[0]), *shape[1:]), np.float32)
        for start in range(0, shape[0], rows):
            piece = buffer[: min(rows, shape[0] - start)]
            self.read(name, start, piece)
            yield start, piece

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Canonical name -> shape of every tensor that a network of this config needs.

    embed [vocab, hidden]; per layer i `layers.{i}.` attn_norm, q, k, v, o, ffn_norm, gate, up, down,
    with q_bias, k_bias, v_bias (attention_bias), o_bias (output_bias), q_norm, k_norm (qk_norm);
    norm [hidden]; head [vocab, hidden] unless tied.
    """
    shapes: dict[str, tuple[int, ...]] = {"embed": (config.vocab_size, config.hidden_size)}
    layer = layer_shapes(config)
    for index in range(config.num_layers):
        shapes.update({f"layers.{index}.{name}": shape for name, shape in layer.items()})
    shapes["norm"] = (config.hidden_size,)
    if not config.tie_embeddings:
        shapes["head"] = (config.vocab_size, config.hidden_size)
    return shapes


def layer_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name within a layer -> shape."""
    hidden, ffn = config.hidden_size, config.intermediate_size
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {"attn_norm": (hidden,)}
    shapes |= {"q": (q, hidden), "k": (kv, hidden), "v": (kv, hidden)}
    if config.attention_bias:
        shapes |= {"q_bias": (q,), "k_bias": (kv,), "v_bias": (kv,)}
    if config.qk_norm:
        shapes |= {"q_norm": (config.head_dim,), "k_norm": (config.head_dim,)}
    shapes["o"] = (hidden, q)
    if config.output_bias:
        shapes["o_bias"] = (hidden,)
    shapes |= {"ffn_norm": (hidden,), "gate": (ffn, hidden), "up": (ffn, hidden)}
    shapes["down"] = (hidden, ffn)
    return shapes
