"""Single operators of the library, for tests and benchmarks: numpy in, numpy out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.kernels.native.device import as_bytes, as_floats, as_ints
from optimist.kernels.native.library import instruction_set, library
from optimist.kernels.native.shapes import (
    MOST_QUERY_HEADS,
    STORED,
    Finish,
    Floats,
    Format,
    Ints,
    Matrix,
)

ALIGNED = 64
"""values that rows are padded to"""


def linear(
    x: Floats, matrix: Matrix, kind: Format, group: int = 0, *, halves: bool = False, isa: str = ""
) -> Floats:
    """x [T, K] times the matrix [N, K] held in a format, transposed. [T, N].

    halves: as steps of few rows have it, the product apart from what becomes of it, in this and those below;
    of at most 64 rows.
    """
    out = np.zeros((len(x), len(matrix.rows)), np.float32)
    _multiply(_Product(x, matrix, kind, group), Finish.STORE, out, halves=halves, isa=isa)
    return out


def linear_add(
    x: Floats,
    matrix: Matrix,
    kind: Format,
    group: int,
    to: Floats,
    *,
    halves: bool = False,
    isa: str = "",
) -> Floats:
    """`to` [T, N] and, added to it, what `linear` gives."""
    out = to.copy()
    _multiply(_Product(x, matrix, kind, group), Finish.ADD, out, halves=halves, isa=isa)
    return out


def linear_gate(
    x: Floats,
    gate: Matrix,
    up: Matrix,
    kind: Format,
    group: int,
    *,
    halves: bool = False,
    isa: str = "",
) -> Floats:
    """silu(x gate) * (x up), [T, F], of two matrices [F, K] in one."""
    out = np.zeros((len(x), len(gate.rows)), np.float32)
    _multiply(_Product(x, gate, kind, group, up), Finish.GATE, out, halves=halves, isa=isa)
    return out


def linear_pick(
    x: Floats, matrix: Matrix, kind: Format, group: int, *, halves: bool = False, isa: str = ""
) -> tuple[Floats, Ints, Floats]:
    """The largest of each row of what `linear` gives, NaN where there is one, and where it is first, [T] each;
    and all of them, [T, N].
    """
    out = np.zeros((len(x), len(matrix.rows)), np.float32)
    found = _multiply(_Product(x, matrix, kind, group), Finish.PICK, out, halves=halves, isa=isa)
    return (*found, out)


class Quantised(NamedTuple):
    """Rows as a linear takes them. values: bf16 or whole numbers, [T, K]. scales: [T, K / group].

    sums: of each group, times -128 in front of int8, times its scale in front of int4, [T, K / group].
    """

    values: Floats
    scales: Floats
    sums: Floats


def quantise(x: Floats, kind: Format, group: int, *, isa: str = "") -> Quantised:
    """x [T, K] in front of a matrix of this format. K: a multiple of 64. In bf16 there are no groups."""
    rows, inputs = x.shape
    if inputs % ALIGNED:
        raise ValueError(f"quantise: expected rows of a multiple of {ALIGNED} values, got {inputs}")
    groups = np.zeros((2, rows, inputs // group), np.float32)
    out = Quantised(np.empty_like(x), *groups)
    library().native_op_quantise(
        *(_name(isa), kind, group, rows, inputs, as_floats(np.ascontiguousarray(x))),
        *(as_floats(each) for each in out),
    )
    return out


def rms_norm(x: Floats, weight: Floats, eps: float, *, isa: str = "") -> Floats:
    """Each row of x [T, E] over its root mean square, times weight [E]."""
    out = np.empty_like(x)
    library().native_op_rms_norm(
        _name(isa), *x.shape, as_floats(x), as_floats(weight), eps, as_floats(out)
    )
    return out


class Rotated(NamedTuple):
    """queries: [T, H, D]. cache: of the text's blocks, [B, G, P / 16, bytes of a tile] uint8; see reference.py."""

    queries: Floats
    cache: NDArray[np.uint8]


def rope(
    qkv: Floats,
    turns: Floats,
    table: Ints,
    *,
    heads: int,
    block_size: int,
    kept: Format = Format.BF16,
    norms: tuple[Floats, Floats] | None = None,
    eps: float = 1e-5,
    apart: bool = False,
    isa: str = "",
) -> Rotated:
    """Queries of a text, and its keys and values as they lie in a cache that held other bytes before.

    qkv: [T, H + 2 G, D], query heads first. turns: cosines and sines, [T, D]. norms: weights of a norm over each
    query and each key, [D]. apart: each token in a step of its own.
    """
    tokens, columns, dim = qkv.shape
    groups, blocks = (columns - heads) // 2, int(table.max()) + 1
    sizes, bytes_ = (heads, groups, dim, block_size, int(kept)), np.zeros(3, np.int32)
    library().native_op_geometry(*sizes, as_ints(bytes_))
    block, head, tile = map(int, bytes_)
    out = Rotated(
        np.empty((tokens, heads, dim), np.float32),
        np.full((blocks, groups, head // tile, tile), 0xFF, np.uint8),
    )
    assert out.cache.nbytes == block * blocks
    weights = (None, None) if norms is None else (norm.ctypes.data for norm in norms)
    library().native_op_rope(
        *(_name(isa), *sizes, tokens, int(apart), as_floats(qkv), as_floats(turns), *weights, eps),
        *(as_ints(table), as_floats(out.queries), as_bytes(out.cache)),
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
    if (group := 2 * heads // (columns - heads)) > MOST_QUERY_HEADS:
        raise ValueError(
            f"attention: expected at most {MOST_QUERY_HEADS} query heads for each KV head, got {group}"
        )
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


class _Product(NamedTuple):
    x: Floats
    matrix: Matrix
    kind: Format
    group: int
    up: Matrix | None = None


def _multiply(
    of: _Product, finish: Finish, out: Floats, *, halves: bool, isa: str
) -> tuple[Floats, Ints]:
    """The best of each row and where it is, which have a meaning where `finish` picks."""
    rows, up = np.ascontiguousarray(of.matrix.rows), of.up
    best, ids = np.zeros(len(of.x), np.float32), np.zeros(len(of.x), np.int32)
    other = None if up is None else np.ascontiguousarray(up.rows)
    failed = library().native_op_linear(
        *(_name(isa), of.kind, of.group, STORED[of.matrix.kind], len(rows), of.matrix.inputs),
        *(as_bytes(rows), None if other is None else other.ctypes.data, finish, int(halves)),
        *(len(of.x), as_floats(of.x), as_floats(out), as_floats(best), as_ints(ids)),
    )
    if failed:
        raise ValueError(f"linear: {of.matrix.kind} is not what {of.kind.name} is made of")
    return best, ids


def _name(isa: str) -> bytes:
    return instruction_set(isa).encode()
