"""The pages' tables of kernels: from the cards, and from what compiling them ahead of time took."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from optimist.kernels.card import AXES, Card
from optimist.kernels.cards import CARDS
from optimist.kernels.native.cards import CARDS as NATIVE_CARDS
from optimist.kernels.native.cards import Card as NativeCard
from optimist.kernels.native.shapes import Format

Table = Callable[[tuple[str, ...], Iterable[tuple[str, ...]]], str]

RECORD = Path(__file__).parent / "kernels.json"

SIZES: Mapping[str, int] = {
    "T": 64,
    "R": 64,
    "C": 1024,
    "H": 32,
    "G": 8,
    "D": 128,
    "E": 4096,
    "F": 14336,
    "K": 4096,
    "N": 4096,
    "V": 128_256,
    "P": 16,
    "B": 64,
    "S": 64,
    "J": 64,
    "W": 8193,
    "A": 5,
    "itemsize": 2,
}
"""an example: 64 rows that decode at 1024 tokens, in a network with 32 heads of 128"""


def axes(table: Table) -> str:
    """The letters of shapes, and their sizes in the example."""
    return table(
        ("axis", "what it counts", "example"),
        [(f"`{letter}`", what, str(SIZES[letter])) for letter, what in AXES.items()],
    )


def operators(table: Table) -> str:
    """Every card: what it computes and costs, and how near it must come."""
    return table(
        ("operator", "computes", "axes", "devices", "dtypes", "bytes", "FLOPs", "tolerance"),
        [
            (
                f"`{card.name}`",
                f"`{card.equation}`",
                ", ".join(card.axes),
                ", ".join(card.devices),
                _dtypes(card),
                _large(card.bytes(SIZES)),
                _large(card.flops(SIZES)),
                _tolerance(card),
            )
            for card in CARDS
        ],
    )


def _dtypes(card: Card) -> str:
    return ", ".join([str(dtype)[6:] for dtype in card.dtypes] + ["fp8"] * bool(card.narrow))


def _tolerance(card: Card) -> str:
    shown = {str(dtype)[6:]: f"{rtol:g}" for dtype, (rtol, _) in card.tolerance.items()}
    return ", ".join(f"{name} {rtol}" for name, rtol in shown.items())


def _large(number: int) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)


NATIVE_SIZES: Mapping[str, int] = {
    **SIZES,
    "T": 8,
    "R": 8,
    "S": 8,
    "C": 256,
    "H": 9,
    "G": 3,
    "D": 64,
    "E": 576,
    "F": 1536,
    "K": 576,
    "N": 960,
    "V": 49_152,
}
"""8 rows that decode at 256 tokens in the default model"""


def native_operators(table: Table) -> str:
    """Every card of the native library."""
    return table(
        ("operator", "computes", "axes", "phases", "bytes: bf16, int8, int4", "FLOPs", "within"),
        [
            (
                f"`{card.name}`",
                f"`{card.equation}`",
                ", ".join(card.axes),
                ", ".join(card.phases),
                ", ".join(_large(round(card.bytes(NATIVE_SIZES, kind))) for kind in Format),
                _large(round(card.flops(NATIVE_SIZES, Format.BF16))),
                _within(card),
            )
            for card in NATIVE_CARDS
        ],
    )


def _within(card: NativeCard) -> str:
    near = {kind.name.lower(): f"{value:g}" for kind, value in card.tolerance.items()}
    if len(set(near.values())) == 1:
        (only,) = set(near.values())
        return "exact" if only == "0" else only
    return ", ".join(f"{name} {value}" for name, value in near.items())


def resources(table: Table) -> str:
    """Registers, shared memory and matrix instructions of every build, by target."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    targets: dict[str, None] = {}
    for one in json.loads(RECORD.read_text(encoding="utf-8")):
        found.setdefault((one["build"], one["kernel"]), {})[one["target"]] = one
        targets.setdefault(one["target"])
    return table(
        ("configuration", "kernel", *targets),
        [
            (build, f"`{kernel}`", *(_taken(seen.get(target)) for target in targets))
            for (build, kernel), seen in found.items()
        ],
    )


def _taken(one: Mapping[str, Any] | None) -> str:
    if one is None:
        return "-"
    matrix = ", matrix" if one["matrix"] else ""
    return f"{one['registers']} registers, {one['shared'] / 1024:.3g} KiB{matrix}"
