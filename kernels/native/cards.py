"""What each operator of the library declares about itself. Torch-free, as the library is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimist.kernels.native.shapes import Format

Cost = Callable[[Mapping[str, int], Format], float]
"""of the sizes of its axes, where weights, activations and cache are held in a format"""

WEIGHT_BYTES = {Format.BF16: 2.0, Format.INT8: 1.0, Format.INT4: 20 / 32}
"""of a weight; those of 4 bits with scale and minimum of their block"""

KEPT_BYTES = {Format.BF16: 2.0, Format.INT8: 34 / 32, Format.INT4: 34 / 32}
"""of a number of the cache, scales included; it has 8 bits where weights have 8 or 4"""

ROW_BYTES = {Format.BF16: 2.0, Format.INT8: 1 + 8 / 64, Format.INT4: 1 + 8 / 32}
"""of a number in front of a linear, with what belongs to its group"""


@dataclass(frozen=True, kw_only=True)
class Card:
    """One operator of the library, in every instruction set.

    does: which functions of struct Isa. phases: parts of a step in which it runs. equation, axes: as on the cards of
    kernels/card.py, in its letters. entry: the function here that calls it alone; reference: the one that is its
    spec; both as module:name below optimist. tolerance: of results relative to their own size and to that of all of
    them, their root mean square, 0 where they are the same numbers, by what it computes with.
    """

    name: str
    does: tuple[str, ...] = ()
    phases: tuple[str, ...]
    equation: str
    axes: str
    entry: str
    reference: str
    tolerance: Mapping[Format, float]
    bytes: Cost
    flops: Cost

    def assert_near(
        self, got: NDArray[np.floating], want: NDArray[np.floating], kind: Format = Format.BF16
    ) -> None:
        """Raise AssertionError unless got is within this card's tolerance of want, NaN only where it is."""
        near = self.tolerance[kind]
        size = float(np.sqrt(np.square(want, dtype=np.float64).sum() / max(want.size, 1)))
        np.testing.assert_allclose(got, want, rtol=near, atol=near * size)


def _exact() -> dict[Format, float]:
    return dict.fromkeys(Format, 0.0)


def _product(s: Mapping[str, int], kind: Format) -> float:
    return WEIGHT_BYTES[kind] * s["K"] * s["N"] + s["T"] * (ROW_BYTES[kind] * s["K"] + 4 * s["N"])


def _multiplications(s: Mapping[str, int], _: Format) -> float:
    return 2.0 * s["T"] * s["K"] * s["N"]


LINEAR_NEAR = {Format.BF16: 1e-6, Format.INT8: 5e-7, Format.INT4: 1e-6}

CARDS: tuple[Card, ...] = (
    Card(
        name="attention",
        does=("attend",),
        phases=("attention",),
        equation="o[t, h, :] = sum_c softmax_c(q[t, h, :] . k[c, g, :] / sqrt(D)) v[c, g, :], c seen by t",
        axes="TCHGD",
        entry="kernels.native.operators:attention",
        reference="kernels.paged_attention.reference:paged_attention",
        tolerance={Format.BF16: 8e-3, Format.INT8: 5e-4},
        bytes=lambda s, kind: s["R"] * s["C"] * 2 * s["G"] * s["D"] * KEPT_BYTES[kind],
        flops=lambda s, _: 4.0 * s["T"] * s["C"] * s["H"] * s["D"],
    ),
    Card(
        name="choose",
        does=("choose", "likelihood", "verdict", "residual_seed"),
        phases=("choose",),
        equation="id[s] = argmax_v(filtered(logits[s, v] / temperature[s]) + gumbel(seed, position, v))",
        axes="SV",
        entry="kernels.native.selection:choose",
        reference="kernels.sampling.reference:sample",
        tolerance=_exact(),
        bytes=lambda s, _: 12.0 * s["S"] * s["V"],
        flops=lambda s, _: 30.0 * s["S"] * s["V"],
    ),
    Card(
        name="embed",
        phases=("embed",),
        equation="x[t, :] = widened(rows[id[t], :])",
        axes="TE",
        entry="kernels.native.device:dequantise",
        reference="models.gguf.blocks:dequantise",
        tolerance=_exact(),
        bytes=lambda s, kind: s["T"] * s["E"] * (4 + WEIGHT_BYTES[kind]),
        flops=lambda s, _: 2.0 * s["T"] * s["E"],
    ),
    Card(
        name="linear",
        does=("linear", "multiply", "finish"),
        phases=("qkv",),
        equation="y[t, n] = sum_k x[t, k] * weight[n, k] + bias[n]",
        axes="TKN",
        entry="kernels.native.operators:linear",
        reference="kernels.native.quantised:int8_linear",
        tolerance=LINEAR_NEAR,
        bytes=_product,
        flops=_multiplications,
    ),
    Card(
        name="linear_add",
        does=("linear", "multiply", "finish"),
        phases=("o", "down"),
        equation="y[t, n] += sum_k x[t, k] * weight[n, k] + bias[n]",
        axes="TKN",
        entry="kernels.native.operators:linear_add",
        reference="kernels.native.quantised:int8_linear",
        tolerance=LINEAR_NEAR,
        bytes=lambda s, kind: _product(s, kind) + 4 * s["T"] * s["N"],
        flops=lambda s, kind: _multiplications(s, kind) + s["T"] * s["N"],
    ),
    Card(
        name="linear_gate",
        does=("linear", "multiply", "finish"),
        phases=("gate_up",),
        equation="y[t, f] = silu(sum_k x[t, k] * gate[f, k]) * sum_k x[t, k] * up[f, k]",
        axes="TKF",
        entry="kernels.native.operators:linear_gate",
        reference="kernels.native.reference:gated",
        tolerance=dict.fromkeys(Format, 3e-7),
        bytes=lambda s, kind: _product({**s, "N": 2 * s["F"]}, kind) - 4 * s["T"] * s["F"],
        flops=lambda s, kind: _multiplications({**s, "N": 2 * s["F"]}, kind) + 20 * s["T"] * s["F"],
    ),
    Card(
        name="linear_pick",
        does=("linear", "multiply", "finish"),
        phases=("head",),
        equation="id[t] = the first v at which sum_k x[t, k] * weight[v, k] is largest",
        axes="TKV",
        entry="kernels.native.operators:linear_pick",
        reference="kernels.native.reference:picked",
        tolerance=_exact(),
        bytes=lambda s, kind: _product({**s, "N": s["V"]}, kind) - 4 * s["T"] * s["V"],
        flops=lambda s, kind: _multiplications({**s, "N": s["V"]}, kind) + s["T"] * s["V"],
    ),
    Card(
        name="merge",
        does=("merge",),
        phases=("attention",),
        equation="o[t, h, :] = sum_i exp(m[i] - max m) o[i, :] / sum_i exp(m[i] - max m) l[i], i chunks of 128",
        axes="TCHD",
        entry="kernels.native.operators:attention",
        reference="kernels.paged_attention.reference:paged_attention",
        tolerance={Format.BF16: 8e-3, Format.INT8: 5e-4},
        bytes=lambda s, _: 4.0 * s["T"] * s["H"] * (-(-s["C"] // 128) * (s["D"] + 16) + s["D"]),
        flops=lambda s, _: 2.0 * s["T"] * s["H"] * -(-s["C"] // 128) * s["D"],
    ),
    Card(
        name="quantise",
        does=("quantise",),
        phases=("norm",),
        equation="y[t, k] = round(127 * x[t, k] / m), m = max |x[t, j]|, j in the group of k; in bf16 the nearest",
        axes="TK",
        entry="kernels.native.operators:quantise",
        reference="kernels.native.quantised:quantised_rows",
        tolerance=_exact(),
        bytes=lambda s, kind: s["T"] * s["K"] * (4 + ROW_BYTES[kind]),
        flops=lambda s, _: 4.0 * s["T"] * s["K"],
    ),
    Card(
        name="report",
        does=("report",),
        phases=("choose",),
        equation="log_softmax(logits[s, :])[id[s]]; rank, and the likeliest with theirs",
        axes="SVA",
        entry="kernels.native.selection:report",
        reference="kernels.logprobs.reference:logprobs",
        tolerance=dict.fromkeys(Format, 2e-7),
        bytes=lambda s, _: 4.0 * s["S"] * (s["V"] + 2 * s["A"]),
        flops=lambda s, _: 20.0 * s["S"] * s["V"],
    ),
    Card(
        name="rms_norm",
        does=("rms_norm",),
        phases=("norm",),
        equation="y[t, e] = x[t, e] / sqrt(mean_e(x[t, e]^2) + eps) * weight[e]",
        axes="TE",
        entry="kernels.native.operators:rms_norm",
        reference="kernels.native.reference:rms_norm",
        tolerance=dict.fromkeys(Format, 5e-7),
        bytes=lambda s, _: 8.0 * s["T"] * s["E"] + 4 * s["E"],
        flops=lambda s, _: 4.0 * s["T"] * s["E"],
    ),
    Card(
        name="rope",
        does=("rope",),
        phases=("rope",),
        equation="(q, k)[t, h, :] = x * cos[t, :] + concat(-x2, x1) * sin[t, :]; cache[table[t div P]] = k, v",
        axes="THGDPB",
        entry="kernels.native.operators:rope",
        reference="kernels.native.reference:rotated",
        tolerance={Format.BF16: 4e-3, Format.INT8: 1e-4},
        bytes=lambda s, kind: (
            s["T"]
            * s["D"]
            * (4 * (s["H"] + 2 * s["G"]) + 2 * s["H"] + 2 * s["G"] * KEPT_BYTES[kind])
        ),
        flops=lambda s, _: 6.0 * s["T"] * (s["H"] + s["G"]) * s["D"],
    ),
)
"""in alphabetical order"""
