"""The spec of quantised linears and caches, in numpy and float64: what the library must compute, up to rounding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.kernels.native.shapes import Floats

Reals = NDArray[np.float64]


def quantised_rows(x: Floats, group: int) -> tuple[Reals, Reals]:
    """Activations as whole numbers in [-127, 127], [T, K], and a scale for each group, [T, K / group].

    A group's largest magnitude becomes 127; halves are rounded to even.
    """
    groups = x.astype(np.float32).reshape(len(x), -1, group)
    largest = np.maximum(np.abs(groups).max(-1, keepdims=True), np.float32(1e-10))
    numbers = np.rint(groups * (np.float32(127) / largest)).astype(np.float64)
    return numbers.reshape(x.shape), (largest[..., 0] / np.float32(127)).astype(np.float64)


def eight_bit_keys(x: Floats) -> Reals:
    """What is left of keys [..., D] in a cache of 8 bits: as of values, but for each 32 of them."""
    parts = np.split(x, range(32, x.shape[-1], 32), -1)
    return np.concatenate([eight_bit_values(np.ascontiguousarray(part)) for part in parts], -1)


def eight_bit_values(x: Floats) -> Reals:
    """What is left of values [..., D]: whole numbers in [-127, 127] times a scale in bfloat16, the largest
    magnitude over 127.
    """
    largest = np.maximum(np.abs(x).max(-1, keepdims=True), np.float32(1e-10)) / np.float32(127)
    bits = np.ascontiguousarray(largest, np.float32).view(np.uint32)
    scales = (bits + 0x7FFF + (bits >> 16 & 1) & np.uint32(0xFFFF0000)).view(np.float32)
    found: Reals = np.rint(x * (np.float32(1) / scales)).astype(np.float64) * scales
    return found


def eight_bit_weights(weights: Floats) -> tuple[Reals, Reals]:
    """Weights [N, K] as whole numbers in [-127, 127], and a scale for each output, [N]."""
    largest = np.maximum(np.abs(weights).max(-1, keepdims=True), np.float32(1e-12))
    numbers = np.rint(weights * (np.float32(127) / largest)).astype(np.float64)
    return numbers, (largest[:, 0] / np.float32(127)).astype(np.float64)


def int8_linear(x: Floats, weights: Floats, group: int) -> Reals:
    """x [T, K] times weights [N, K] transposed, both in eight bits. [T, N]."""
    (rows, scales), (numbers, steps) = quantised_rows(x, group), eight_bit_weights(weights)
    parts = np.einsum("tgk,ngk->tgn", _grouped(rows, group), _grouped(numbers, group))
    total: Reals = (parts * scales[:, :, None]).sum(1) * steps
    return total


def int4_linear(x: Floats, numbers: Reals, scales: Reals, least: Reals) -> Reals:
    """The same with weights scales * numbers + least, [N, K / 32] for numbers [N, K] of four bits."""
    rows, steps = quantised_rows(x, 32)
    grouped = _grouped(rows, 32)
    parts = np.einsum("tgk,ngk->tgn", grouped, _grouped(numbers, 32)) * scales.T
    sums = grouped.sum(-1)[:, :, None] * least.T
    total: Reals = ((parts + sums) * steps[:, :, None]).sum(1)
    return total


def _grouped(values: Reals, group: int) -> Reals:
    return values.reshape(len(values), -1, group)
