"""From a model file to the native library: which tensor goes where, and in which format."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from optimist.kernels.native.device import NO_LAYER, NativeDevice
from optimist.kernels.native.shapes import Format, Matrix, Part, Shape, Vector
from optimist.messages.errors import ConfigError
from optimist.models.base import WeightSource
from optimist.models.config import ModelConfig
from optimist.models.quantisation import Formats, Quant
from optimist.models.rotary import frequencies

Progress = Callable[[str, int, int], None]
"""Told (what, done, total)."""

TILE = 16
"""tokens whose keys lie together: block sizes are multiples of it"""
WIDEST_HEAD = 256


class Sizes(NamedTuple):
    """Of the device state. max_tokens: query tokens of a step."""

    block_size: int
    blocks: int
    slots: int
    max_len: int
    max_tokens: int
    threads: int


def unsupported(config: ModelConfig, block_size: int) -> str:
    """Why the library cannot run this model with this block size, "" where it can."""
    if config.head_dim > WIDEST_HEAD:
        return f"head_dim: expected at most {WIDEST_HEAD}, got {config.head_dim}"
    if block_size < 1 or block_size % TILE:
        return f"block_size: expected a multiple of {TILE}, got {block_size}"
    return ""


def block_bytes(config: ModelConfig, block_size: int) -> int:
    """Bytes of one KV block over all layers."""
    width = -(-config.head_dim // 16) * 16
    return 2 * 2 * config.num_layers * config.num_kv_heads * block_size * width


def shape_of(config: ModelConfig, sizes: Sizes) -> Shape:
    """What the library needs to know. Raises ConfigError for what it cannot run."""
    if why := unsupported(config, sizes.block_size):
        raise ConfigError(f"native: {why}")
    turns, scale = frequencies(config)
    return Shape(
        vocab=config.vocab_size,
        hidden=config.hidden_size,
        layers=config.num_layers,
        heads=config.num_heads,
        kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        ffn=config.intermediate_size,
        window=config.sliding_window or 0,
        qk_norm=config.qk_norm,
        tied=config.tie_embeddings,
        block_size=sizes.block_size,
        blocks=sizes.blocks,
        slots=sizes.slots,
        max_len=sizes.max_len,
        max_tokens=sizes.max_tokens,
        threads=sizes.threads,
        eps=config.rms_norm_eps,
        rope_scale=scale,
        frequencies=turns,
    )


def load_device(
    source: WeightSource,
    sizes: Sizes,
    progress: Progress | None = None,
    *,
    quant: Quant = "none",
    isa: str = "",
) -> NativeDevice:
    """The network of a source in the library. isa: instruction set, "" for the best.

    Raises ConfigError for a model that the library cannot run, or one without weights of four bits
    when these are asked for.
    """
    formats = Formats(source, quant)
    device = NativeDevice(shape_of(source.config, sizes), isa)
    try:
        _Loading(source, formats, device, progress or (lambda what, done, total: None)).run()
    except BaseException:
        device.close()
        raise
    return device


class _Loading:
    """Takes every tensor of a source once."""

    def __init__(
        self, source: WeightSource, formats: Formats, device: NativeDevice, progress: Progress
    ) -> None:
        self._source = source
        self._formats = formats
        self._device = device
        self._progress = progress
        self._done = 0

    def run(self) -> None:
        for layer in range(self._source.config.num_layers):
            self._layer(layer)
        tied = self._source.config.tie_embeddings
        head = "embed" if tied else "head"
        kind = self._formats.head
        self._device.allocate(NO_LAYER, Part.HEAD, kind, self._formats.group(kind))
        self._rows(NO_LAYER, Part.HEAD, 0, head)
        if not tied or kind is not Format.BF16:
            self._device.embedding(_narrow(self._matrix("embed")))
        self._vector(NO_LAYER, Vector.NORM, 0, "norm")

    def _layer(self, layer: int) -> None:
        config, prefix = self._source.config, f"layers.{layer}."
        self._stack(layer, Part.QKV, Vector.QKV_BIAS, tuple(prefix + name for name in "qkv"))
        self._stack(layer, Part.O, Vector.O_BIAS, (prefix + "o",))
        gate_up = (prefix + "gate", prefix + "up")
        self._allocate(layer, Part.GATE_UP, gate_up)
        for half, name in enumerate(gate_up):
            self._rows(layer, Part.GATE_UP, 0, name, half)
        self._stack(layer, Part.DOWN, None, (prefix + "down",))
        self._vector(layer, Vector.ATTN_NORM, 0, prefix + "attn_norm")
        self._vector(layer, Vector.FFN_NORM, 0, prefix + "ffn_norm")
        if config.qk_norm:
            self._vector(layer, Vector.Q_NORM, 0, prefix + "q_norm")
            self._vector(layer, Vector.K_NORM, 0, prefix + "k_norm")

    def _stack(self, layer: int, part: Part, bias: Vector | None, names: tuple[str, ...]) -> None:
        """Matrices one behind the other, with their biases where the model has them."""
        self._allocate(layer, part, names)
        first = 0
        for name in names:
            self._rows(layer, part, first, name)
            if bias is not None and f"{name}_bias" in self._source.names():
                self._vector(layer, bias, first, f"{name}_bias")
            first += self._source.shape(name)[0]

    def _allocate(self, layer: int, part: Part, names: tuple[str, ...]) -> None:
        kind = self._formats.of(names)
        self._device.allocate(layer, part, kind, self._formats.group(kind))

    def _rows(self, layer: int, part: Part, first: int, name: str, half: int = -1) -> None:
        self._device.pack(layer, part, first, self._matrix(name), half)
        self._tell()

    def _vector(self, layer: int, which: Vector, first: int, name: str) -> None:
        self._device.vector(layer, which, first, self._source.tensor(name))
        self._tell()

    def _matrix(self, name: str) -> Matrix:
        stored = self._source.matrix(name)
        return Matrix(stored.kind, self._source.shape(name)[1], stored.rows, stored.order)

    def _tell(self) -> None:
        self._done += 1
        self._progress("weights", self._done, len(self._source.names()))


def _narrow(matrix: Matrix) -> Matrix:
    """The same rows, in bfloat16 where they take more than that."""
    if matrix.kind != "F32":
        return matrix
    bits = np.ascontiguousarray(matrix.rows).view(np.uint32)
    halves = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return Matrix("BF16", matrix.inputs, halves.view(np.uint8), matrix.order)
