"""How GGUF tensor types lie in bytes: weights to a block, bytes to a block."""

from __future__ import annotations

from typing import NamedTuple


class BlockLayout(NamedTuple):
    """A tensor type: its name, and how many weights go into how many bytes."""

    name: str
    weights: int
    size: int


LAYOUTS = {
    0: BlockLayout("F32", 1, 4),
    1: BlockLayout("F16", 1, 2),
    2: BlockLayout("Q4_0", 32, 18),
    3: BlockLayout("Q4_1", 32, 20),
    6: BlockLayout("Q5_0", 32, 22),
    7: BlockLayout("Q5_1", 32, 24),
    8: BlockLayout("Q8_0", 32, 34),
    12: BlockLayout("Q4_K", 256, 144),
    13: BlockLayout("Q5_K", 256, 176),
    14: BlockLayout("Q6_K", 256, 210),
    30: BlockLayout("BF16", 1, 2),
}
"""the supported types by their number in the file"""

UNSUPPORTED = {
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
}
"""names of types that are known and refused"""


def type_name(number: int) -> str:
    """The name of a tensor type by its number in the file."""
    if (layout := LAYOUTS.get(number)) is not None:
        return layout.name
    return UNSUPPORTED.get(number, f"unknown type {number}")
