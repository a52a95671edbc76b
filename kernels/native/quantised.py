"""The spec of quantised linears, in numpy and float64: what the library must compute, up to rounding."""

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
