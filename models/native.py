"""From a model file to the native library: which tensor goes where, and in which format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from optimist.kernels.native.device import NO_LAYER, NativeDevice
from optimist.kernels.native.shapes import (
    MOST_QUERY_HEADS,
    VERIFY,
    Format,
    Matrix,
    Part,
    Shape,
    Vector,
)
from optimist.messages.errors import ConfigError
from optimist.models.base import WeightSource
from optimist.models.config import ModelConfig
from optimist.models.packed_cache import PackedCache
from optimist.models.quantisation import Formats, Quant
from optimist.models.rotary import frequencies

Progress = Callable[[str, int, int], None]
"""Told (what, done, total)."""

TILE = 16
"""tokens whose keys lie together: block sizes are multiples of it"""
WIDEST_HEAD = 256
KEY_GROUP, LINE = 32, 64
"""values of a key of 8 bits that share a scale; bytes to which the scales of a tile are rounded up"""


class Sizes(NamedTuple):
    """Of the device state. max_tokens: query tokens of a step. kept: keys and values, BF16 or INT8.

    verify: how drafts are judged, see VERIFY. shares: fewer of the threads compute beside engines of other
    processes.
    """

    block_size: int
    blocks: int
    slots: int
    max_len: int
    max_tokens: int
    threads: int
    kept: Format = Format.BF16
    verify: str = "sample"
    shares: bool = False


def unsupported(config: ModelConfig, block_size: int) -> str:
    """Why the library cannot run this model with this block size, "" where it can."""
    if config.head_dim > WIDEST_HEAD:
        return f"head_dim: expected at most {WIDEST_HEAD}, got {config.head_dim}"
    if (group := config.num_heads // config.num_kv_heads) > MOST_QUERY_HEADS:
        return f"num_heads: expected at most {MOST_QUERY_HEADS} for each KV head, got {group}"
    if block_size < 1 or block_size % TILE:
        return f"block_size: expected a multiple of {TILE}, got {block_size}"
    return ""


def block_bytes(config: ModelConfig, block_size: int, kept: Format = Format.BF16) -> int:
    """Bytes of one KV block over all layers. kept: how keys and values are held, scales included."""
    width = -(-config.head_dim // TILE) * TILE
    tile = 4 * TILE * width
    if kept is Format.INT8:
        scales = 2 * TILE * (-(-width // KEY_GROUP) + 1)
        tile = 2 * TILE * width + -(-scales // LINE) * LINE
    return config.num_layers * config.num_kv_heads * (block_size // TILE) * tile


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
        shares=sizes.shares,
        kept=sizes.kept,
        verify=VERIFY.index(sizes.verify),
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
    cache: str = "",
) -> NativeDevice:
    """The network of a source in the library. isa: instruction set, "" for the best. cache: a folder of
    packed weights, see PackedCache; "" packs them in memory of its own.

    Raises ConfigError for a model that the library cannot run, or one without weights of four bits
    when these are asked for.
    """
    formats = Formats(source, quant)
    device = NativeDevice(shape_of(source.config, sizes), isa)
    kept = PackedCache(cache, source, formats.quant) if cache else None
    try:
        _Loading(source, formats, device, progress or (lambda what, done, total: None)).run(kept)
    except BaseException:
        device.close()
        raise
    return device


class _Packed(NamedTuple):
    """A matrix of the library. names: the matrices it is made of, one behind the other, or half by half."""

    layer: int
    part: Part
    names: tuple[str, ...]
    bias: Vector | None = None
    halves: bool = False


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
        tied = source.config.tie_embeddings
        self._matrices = [m for i in range(source.config.num_layers) for m in _layer(i)]
        self._matrices.append(_Packed(NO_LAYER, Part.HEAD, ("embed" if tied else "head",)))
        self._kept = not tied or formats.head is not Format.BF16

    def run(self, cache: PackedCache | None) -> None:
        for matrix in self._matrices:
            kind = (
                self._formats.head if matrix.part is Part.HEAD else self._formats.of(matrix.names)
            )
            group = self._formats.group(kind)
            self._device.allocate(matrix.layer, matrix.part, kind, group)
        if cache is None:
            self._pack()
        else:
            self._from(cache)
        self._vectors()

    def _from(self, cache: PackedCache) -> None:
        places = [(matrix.layer, matrix.part) for matrix in self._matrices]
        if self._kept:
            kind = self._source.stored_type("embed")
            self._device.embedding_room("BF16" if kind == "F32" else kind)
            places.append((NO_LAYER, Part.EMBEDDING))
        cache.fill(self._device, places, self._pack)

    def _pack(self) -> None:
        for matrix in self._matrices:
            first = 0
            for half, name in enumerate(matrix.names):
                rows, into = self._matrix(name), (matrix.layer, matrix.part)
                if matrix.halves:
                    self._device.pack(*into, 0, rows, half)
                else:
                    self._device.pack(*into, first, rows)
                first += self._source.shape(name)[0]
                self._tell()
        if self._kept:
            self._device.embedding(_narrow(self._matrix("embed")))

    def _vectors(self) -> None:
        for matrix in self._matrices:
            self._biases(matrix)
        for layer in range(self._source.config.num_layers):
            for which, name in _NORMS.items():
                if name not in ("q_norm", "k_norm") or self._source.config.qk_norm:
                    self._vector(layer, which, 0, f"layers.{layer}.{name}")
        self._vector(NO_LAYER, Vector.NORM, 0, "norm")
        self._progress("weights", len(self._source.names()), len(self._source.names()))

    def _biases(self, matrix: _Packed) -> None:
        first = 0
        for name in matrix.names:
            if matrix.bias is not None and f"{name}_bias" in self._source.names():
                self._vector(matrix.layer, matrix.bias, first, f"{name}_bias")
            first += self._source.shape(name)[0]

    def _vector(self, layer: int, which: Vector, first: int, name: str) -> None:
        self._device.vector(layer, which, first, self._source.tensor(name))
        self._tell()

    def _matrix(self, name: str) -> Matrix:
        stored = self._source.matrix(name)
        return Matrix(stored.kind, self._source.shape(name)[1], stored.rows, stored.order)

    def _tell(self) -> None:
        self._done += 1
        self._progress("weights", self._done, len(self._source.names()))


def _layer(layer: int) -> Iterator[_Packed]:
    prefix = f"layers.{layer}."
    yield _Packed(layer, Part.QKV, tuple(prefix + name for name in "qkv"), Vector.QKV_BIAS)
    yield _Packed(layer, Part.O, (prefix + "o",), Vector.O_BIAS)
    yield _Packed(layer, Part.GATE_UP, (prefix + "gate", prefix + "up"), halves=True)
    yield _Packed(layer, Part.DOWN, (prefix + "down",))


_NORMS = {
    Vector.ATTN_NORM: "attn_norm",
    Vector.FFN_NORM: "ffn_norm",
    Vector.Q_NORM: "q_norm",
    Vector.K_NORM: "k_norm",
}


def _narrow(matrix: Matrix) -> Matrix:
    """The same rows, in bfloat16 where they take more than that."""
    if matrix.kind != "F32":
        return matrix
    bits = np.ascontiguousarray(matrix.rows).view(np.uint32)
    halves = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return Matrix("BF16", matrix.inputs, halves.view(np.uint8), matrix.order)
