"""What no decode step on this machine can beat: the time it takes to read what it must read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import prod
from statistics import median
from time import perf_counter, process_time
from typing import Any, get_args

import numpy as np

from optimist.actors.worker.processors import threads_of
from optimist.kernels.native.library import missing
from optimist.kernels.native.probe import Pass, operations, read_passes
from optimist.kernels.native.shapes import Format
from optimist.messages.errors import ConfigError
from optimist.models.default import default_model
from optimist.models.native import block_bytes
from optimist.models.quantisation import Formats, KvDtype, Quant
from optimist.models.source import WeightSource, open_source

BEYOND_CACHES = 512 << 20
"""bytes that no cache holds"""

PASS_BYTES = 2 << 30
"""read in all for one figure"""

HAD = 0.75
"""of the cores that threads want, in a pass that counts"""

ROUNDS = 5
"""in which every figure is taken once"""

Figures = dict[str, list[float]]
"""Of each probe, what it found in each round."""

BATCHES = (1, 8, 32)

PEAKS: tuple[Quant, ...] = ("none", "int8")

BITS = {Format.BF16: 16.0, Format.INT8: 8.0, Format.INT4: 5.0}
"""of a weight; int4: scale and minimum of 32 weights are a bit each"""

LAYER = (("q", "k", "v"), ("o",), ("gate", "up"), ("down",))
"""matrices that lie together have one format"""


def measure(
    model: str = "",
    *,
    quant: Quant | None = None,
    kv: KvDtype = "auto",
    context: int = 256,
    threads: int | None = None,
) -> dict[str, Any]:
    """Bandwidth on one thread and on all, and the floor of a step in each format, or in one.

    context: tokens behind every row. peak_gops: thousand millions of multiplications and additions a
    second out of registers, on all threads: what bounds prompts. Figures of bandwidth are GB/s: `memory` of more than caches hold,
    `weights` of as many bytes as a step's weights, read over and over as steps do. Each is taken once in
    each of ROUNDS rounds, in turns with all others, since machines have states that last for seconds: its
    figure is the median, beside it the least and the most; floors are those of the median. Raises ConfigError
    for a context that the model does not have, for a format that the file does not have and for a cache of GPUs.
    """
    many = threads_of(threads)
    with open_source(model or str(default_model())) as source:
        longest = source.config.max_model_len
        if not 1 <= context <= longest:
            raise ConfigError(
                f"--context: expected 1 to {longest}, which the model was made for, got {context}"
            )
        sizes = {
            name: (step_bytes(source, name), context * token_bytes(source, name, kv))
            for name in ((quant,) if quant else possible(source))
        }
    weights, memory, peaks = _rounds(
        {name: partial(bandwidth, size, many, ROUNDS) for name, (size, _) in sizes.items()},
        {str(n): partial(bandwidth, BEYOND_CACHES, n, ROUNDS) for n in sorted({1, many})},
        {name: partial(peak, name, many) for name in PEAKS if not missing()},
    )
    return {
        "threads": many,
        "rounds": ROUNDS,
        "memory_gb_per_s": _medians(memory),
        "memory_range": _ranges(memory),
        "peak_gops": _medians(peaks),
        "peak_range": _ranges(peaks),
        "probe": "numpy" if missing() else "native",
        "context": context,
        "quant": {
            name: {
                "weight_bytes": size,
                "kv_bytes_per_row": row,
                "weights_gb_per_s": _medians(weights)[name],
                "weights_range": _ranges(weights)[name],
                "batches": {str(n): _floor(size, row, n, median(weights[name])) for n in BATCHES},
            }
            for name, (size, row) in sizes.items()
        },
    }


def _rounds(*probes: Mapping[str, Callable[[], float]]) -> list[Figures]:
    """What each probe found, of each group of them, by its name: all of them once, then all again."""
    found: list[Figures] = [{name: [] for name in group} for group in probes]
    for _ in range(ROUNDS):
        for group, into in zip(probes, found, strict=True):
            for name, probe in group.items():
                into[name].append(probe())
    return found


def _medians(found: Figures) -> dict[str, float]:
    return {name: _gigabytes(median(each)) for name, each in found.items()}


def _ranges(found: Figures) -> dict[str, list[float]]:
    """Of each the least and the most."""
    return {name: [_gigabytes(min(each)), _gigabytes(max(each))] for name, each in found.items()}


def bandwidth(size: int, threads: int, share: int = 1) -> float:
    """Bytes a second that threads read together of the same `size` bytes, median of some passes, of which
    a share is made.
    """
    passes = max(3, PASS_BYTES // share // size)
    if missing():
        found = _numpy_passes(size, threads, passes)
    else:
        found = read_passes(size, threads, passes)
    return size / median(together(found, min(threads, len(os.sched_getaffinity(0)))))


def together(passes: Sequence[Pass], cores: int) -> list[float]:
    """Seconds of the passes in which threads had the cores that they wanted, all where they never had.

    A system with other work may leave all threads on one core for a whole pass, which then says what one
    core reads.
    """
    good = [each.seconds for each in passes if each.processors >= HAD * cores * each.seconds]
    return good or [each.seconds for each in passes]


def peak(quant: Quant, threads: int) -> float:
    """Multiplications and additions a second that threads do out of registers, median of some times.
    int4: as int8, which is what they become.
    """
    kind = Format.BF16 if quant == "none" else Format.INT8
    return median(operations(kind, threads) for _ in range(5))


def step_bytes(source: WeightSource, quant: Quant) -> int:
    """Bytes of weights that a decode step reads: every matrix once, and a row of the embedding."""
    formats, config = Formats(source, quant), source.config
    bits = 0.0
    for layer in range(config.num_layers):
        for parts in LAYER:
            names = tuple(f"layers.{layer}.{part}" for part in parts)
            kind = formats.of(names)
            bits += sum(_matrix_bits(source.shape(name), kind) for name in names)
    head = source.shape("embed" if config.tie_embeddings else "head")
    return int(bits + _matrix_bits(head, formats.head)) // 8


def token_bytes(source: WeightSource, quant: Quant, kv: KvDtype = "auto") -> int:
    """Bytes of a token's keys and values, all layers."""
    return block_bytes(source.config, 16, Formats(source, quant).kept(kv)) // 16


def prompt_operations(source: WeightSource, tokens: int) -> int:
    """Multiplications and additions that a prompt takes: every matrix of the layers once for each token,
    the head once, and each query with the keys and values before it.
    """
    config = source.config
    matrices = sum(prod(source.shape(f"layers.0.{part}")) for parts in LAYER for part in parts)
    attended = 2 * config.num_heads * config.head_dim * tokens * (tokens + 1) // 2
    layer = tokens * matrices + attended
    return 2 * (config.num_layers * layer + config.vocab_size * config.hidden_size)


def _matrix_bits(shape: tuple[int, ...], kind: Format) -> float:
    scales = 32 * shape[0] if kind is Format.INT8 else 0
    return prod(shape) * BITS[kind] + scales


def _floor(weights: int, row: int, rows: int, speed: float) -> dict[str, float]:
    """Of a step of so many rows. row: bytes of keys and values that each of them reads."""
    seconds = (weights + rows * row) / speed
    return {
        "floor_ms": round(1000 * seconds, 3),
        "tokens_per_s": round(rows / seconds, 1),
    }


def possible(source: WeightSource) -> list[Quant]:
    """Formats that the library can make of the file."""
    found: list[Quant] = []
    for quant in get_args(Quant)[:3]:
        try:
            Formats(source, quant)
        except ConfigError:
            continue
        found.append(quant)
    return found


def _gigabytes(speed: float) -> float:
    return round(speed / 1e9, 2)


def _numpy_passes(size: int, threads: int, passes: int) -> list[Pass]:
    """The same where the library was not built. numpy gives up Python's lock while it sums."""
    memory = np.ones(size // 8, np.int64)
    parts = np.array_split(memory, threads)
    found = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(passes):
            begun, had = perf_counter(), process_time()
            list(pool.map(np.bitwise_xor.reduce, parts))
            found.append(Pass(perf_counter() - begun, process_time() - had))
    return found
