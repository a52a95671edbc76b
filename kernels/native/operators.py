"""Single operators of the library, for tests and benchmarks: numpy in, numpy out."""

from __future__ import annotations

import numpy as np

from optimist.kernels.native.device import as_bytes, as_floats, as_ints
from optimist.kernels.native.library import instruction_set, library
from optimist.kernels.native.shapes import STORED, Floats, Format, Ints, Matrix


def linear(x: Floats, matrix: Matrix, kind: Format, group: int = 0, *, isa: str = "") -> Floats:
    """x [T, K] times the matrix [N, K] held in a format, transposed. [T, N]."""
    rows = np.ascontiguousarray(matrix.rows)
    out = np.empty((len(x), len(rows)), np.float32)
    failed = library().native_op_linear(
        *(_name(isa), kind, group, STORED[matrix.kind], len(rows), matrix.inputs, as_bytes(rows)),
        *(len(x), as_floats(x), as_floats(out)),
    )
    if failed:
        raise ValueError(f"linear: {matrix.kind} is not what {kind.name} is made of")
    return out


def rms_norm(x: Floats, weight: Floats, eps: float, *, isa: str = "") -> Floats:
    """Each row of x [T, E] over its root mean square, times weight [E]."""
    out = np.empty_like(x)
    library().native_op_rms_norm(
        _name(isa), *x.shape, as_floats(x), as_floats(weight), eps, as_floats(out)
    )
    return out


def attention(
    qkv: Floats,
    turns: Floats,
    table: Ints,
    *,
    heads: int,
    block_size: int,
    queries: int,
    window: int = 0,
    kept: Format = Format.BF16,
    pieces: bool = False,
    isa: str = "",
) -> Floats:
    """What the last `queries` tokens of a text see of it, [queries, heads, D].

    qkv: before rotation, [C, heads + 2 G, D], query heads first. turns: cosines and sines of each token,
    [C, D]. table: the text's blocks. kept: keys and values, BF16 or INT8. pieces: the context in chunks
    that are merged afterwards.
    """
    tokens, columns, dim = qkv.shape
    out = np.empty((queries, heads, dim), np.float32)
    sizes = (heads, (columns - heads) // 2, dim, block_size, kept, window, tokens, queries)
    library().native_op_attention(
        *(_name(isa), *sizes, int(pieces), as_floats(qkv), as_floats(turns)),
        *(as_ints(table), int(table.max()) + 1, as_floats(out)),
    )
    return out


def parts_done(threads: int, phases: int, parts: int) -> Ints:
    """How often each part of so many phases is done, [phases, parts], by threads of which the second is
    held up in the middle of its first part until the others have been through all of them.
    """
    counts = np.zeros((phases, parts), np.int32)
    library().native_op_parts(threads, phases, parts, as_ints(counts))
    return counts


def _name(isa: str) -> bytes:
    return instruction_set(isa).encode()
