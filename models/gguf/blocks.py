"""From stored blocks to float32, one function per tensor type, each bit-exact to the format.

Every function fills `out` [blocks, weights of a block] from `raw` [blocks, bytes of a block].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from optimist.models.gguf.layout import BlockLayout

Raw = NDArray[np.uint8]
Floats = NDArray[np.float32]
Integers = NDArray[np.integer]


def dequantise(layout: BlockLayout, raw: Raw, out: Floats) -> None:
    """Fill `out` with the weights of the blocks in `raw`. Both are contiguous, of any shape."""
    with np.errstate(all="ignore"):
        _FILLS[layout.name](raw.reshape(-1, layout.size), out.reshape(-1, layout.weights))


def _f32(raw: Raw, out: Floats) -> None:
    out[...] = raw.view("<f4")


def _f16(raw: Raw, out: Floats) -> None:
    out[...] = raw.view("<f2")


def _bf16(raw: Raw, out: Floats) -> None:
    np.left_shift(raw.view("<u2"), 16, out=out.view(np.uint32), dtype=np.uint32)


def _half(raw: Raw) -> Floats:
    """The float16 numbers in the columns of raw, [blocks, bytes / 2]."""
    return np.ascontiguousarray(raw).view("<f2").astype(np.float32)


def _nibbles(packed: Raw, out: Floats) -> None:
    """Low halves into the first columns, high halves into the others."""
    width = packed.shape[1]
    out[:, :width] = packed & 15
    out[:, width:] = packed >> 4


def _q4_0(raw: Raw, out: Floats) -> None:
    _nibbles(raw[:, 2:], out)
    out -= 8
    out *= _half(raw[:, :2])


def _q4_1(raw: Raw, out: Floats) -> None:
    scales = _half(raw[:, :4])
    _nibbles(raw[:, 4:], out)
    out *= scales[:, :1]
    out += scales[:, 1:]


def _fifth_bits(packed: Raw) -> Raw:
    """16 for each weight whose fifth bit is set, else 0, [blocks, 32]."""
    bits = np.unpackbits(np.ascontiguousarray(packed), axis=1, bitorder="little")
    return np.left_shift(bits, 4, dtype=np.uint8)


def _five_bits(packed: Raw, fifth: Raw, out: Floats) -> None:
    high = _fifth_bits(fifth)
    out[:, :16] = packed & 15 | high[:, :16]
    out[:, 16:] = packed >> 4 | high[:, 16:]


def _q5_0(raw: Raw, out: Floats) -> None:
    _five_bits(raw[:, 6:], raw[:, 2:6], out)
    out -= 16
    out *= _half(raw[:, :2])


def _q5_1(raw: Raw, out: Floats) -> None:
    scales = _half(raw[:, :4])
    _five_bits(raw[:, 8:], raw[:, 4:8], out)
    out *= scales[:, :1]
    out += scales[:, 1:]


def _q8_0(raw: Raw, out: Floats) -> None:
    np.multiply(raw[:, 2:].view(np.int8), _half(raw[:, :2]), out=out)


def _group_scales(packed: Raw) -> tuple[Integers, Integers]:
    """Six-bit scales and minima of eight groups out of twelve bytes, two times [blocks, 8]."""
    first, second, third = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    later_scales = third & 15 | first >> 6 << 4
    later_minima = third >> 4 | second >> 6 << 4
    return np.hstack([first & 63, later_scales]), np.hstack([second & 63, later_minima])


def _scale_groups(raw: Raw, out: Floats) -> None:
    """Turn the numbers in `out` into weights by the two-level scales that begin a block."""
    halves = _half(raw[:, :4])
    scales, minima = _group_scales(raw[:, 4:16])
    groups = out.reshape(-1, 8, 32)
    groups *= (halves[:, :1] * scales)[:, :, None]
    groups -= (halves[:, 1:] * minima)[:, :, None]


def _q4_k(raw: Raw, out: Floats) -> None:
    packed = raw[:, 16:].reshape(-1, 4, 32)
    numbers = out.reshape(-1, 4, 2, 32)
    numbers[:, :, 0] = packed & 15
    numbers[:, :, 1] = packed >> 4
    _scale_groups(raw, out)


def _q5_k(raw: Raw, out: Floats) -> None:
    packed = raw[:, 48:].reshape(-1, 4, 32)
    fifth = raw[:, 16:48]
    numbers = out.reshape(-1, 4, 2, 32)
    for group in range(4):
        low, high = fifth >> 2 * group & 1, fifth >> 2 * group + 1 & 1
        numbers[:, group, 0] = packed[:, group] & 15 | low << 4
        numbers[:, group, 1] = packed[:, group] >> 4 | high << 4
    _scale_groups(raw, out)


def _q6_k(raw: Raw, out: Floats) -> None:
    low = raw[:, :128].reshape(-1, 2, 2, 32)
    high = raw[:, 128:192].reshape(-1, 2, 32)
    numbers = out.reshape(-1, 2, 4, 32)
    for part in range(4):
        nibble = low[:, :, part % 2] & 15 if part < 2 else low[:, :, part % 2] >> 4
        numbers[:, :, part] = nibble | (high >> 2 * part & 3) << 4
    out -= 32
    scales = _half(raw[:, 208:]) * raw[:, 192:208].view(np.int8)
    groups = out.reshape(-1, 16, 16)
    groups *= scales[:, :, None]


_FILLS: dict[str, Callable[[Raw, Floats], None]] = {
    "F32": _f32,
    "F16": _f16,
    "BF16": _bf16,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
