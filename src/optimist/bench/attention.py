"""`optimist bench attention`: one layer's attention of a batch, by several kernels side by side."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from optimist.bench.attention_backends import BACKENDS, Backend, Inputs, Prepared, has_flash
from optimist.bench.batches import BLOCK, LOOSE, Span, batch_of, metadata_of, spans
from optimist.bench.timing import Run, copies, timed
from optimist.kernels import paged_attention
from optimist.kernels.device import Device, device_of
from optimist.kernels.gpus import chosen_device
from optimist.kernels.kv_cache import allocate
from optimist.messages.errors import ConfigError
from optimist.models.config import ModelConfig
from optimist.models.default import default_model
from optimist.models.source import open_source

ITEMSIZE = 2
"""bytes of a bfloat16"""

TELLING = 0.05
"""of the time that is taken off, what is left must be more than this share to say anything"""


def measure(batch: str, backends: str, model: str = "", device: str = "auto") -> dict[str, Any]:
    """Milliseconds of each backend, and what that makes of bytes and operations.

    batch: see optimist.bench.batches. backends: names, separated by commas. model: whose heads; only
    its header is read. Triton attends once more with bounds that are LOOSE tokens too long. Raises
    ConfigError for a batch or a backend that is none.
    """
    rows, names = spans(batch), backends.split(",")
    for name in names:
        _check(name)
    with open_source(model or str(default_model())) as source:
        shape = source.config
    where = chosen_device(device)
    outputs: dict[str, Tensor] = {}
    found: dict[str, Any] = {}
    for name in names:
        backend = BACKENDS[name]
        at = device_of(where if backend.there else "cpu")
        outputs[name], figures = _measured(backend, shape, rows, at)
        how = backend.how
        if name == "triton":
            _, loose = _measured(backend, shape, rows, at, LOOSE)
            figures["ms_loose_bound"] = loose["ms"]
            how = "interpreted: its time says nothing" if where == "cpu" else how
        found[name] = {"device": str(at.torch), "how": how} | figures
    first = outputs[names[0]].float().cpu()
    return {
        "batch": batch,
        "rows": len(rows),
        "decode_rows": sum(row.decodes for row in rows),
        "query_tokens": sum(row.query for row in rows),
        "context_tokens": sum(row.length for row in rows),
        "heads": f"{shape.num_heads} of {shape.head_dim}, {shape.num_kv_heads} of keys and values",
        "backends": found,
        "largest_difference": max(
            float((one.float().cpu() - first).abs().max()) for one in outputs.values()
        ),
    }


def work(shape: ModelConfig, rows: list[Span]) -> tuple[int, int]:
    """Bytes that a layer's attention of these rows moves, and operations that it does."""
    sizes = {"H": shape.num_heads, "G": shape.num_kv_heads, "D": shape.head_dim}
    card, moved, worked = paged_attention.CARD, 0, 0
    for row in rows:
        axes = sizes | {"T": row.query, "R": 1, "C": row.length, "itemsize": ITEMSIZE}
        moved += card.bytes(axes)
        # Of the last `query` columns each token sees its own share: half of a square.
        worked += card.flops(axes | {"C": row.length - (row.query - 1) // 2})
    return moved, worked


def _check(name: str) -> None:
    if name not in BACKENDS:
        raise ConfigError(f"--backends: expected {', '.join(BACKENDS)}, got {name!r}")
    if name == "flash" and not has_flash():
        raise ConfigError("--backends: flash needs the package flash_attn, which is not installed")


def _measured(
    backend: Backend, shape: ModelConfig, rows: list[Span], device: Device, loose: int = 0
) -> tuple[Tensor, dict[str, Any]]:
    """What it yields, and figures. loose: tokens by which decode rows' bounds exceed their lengths."""
    built, at = batch_of(rows, loose), device.torch
    moved, worked = work(shape, rows)
    with torch.inference_mode(), device.step():
        q, cache = _inputs(shape, rows, at)
        ready: list[Prepared] = []
        for _ in range(copies(moved, at)):
            metadata = metadata_of(built, rows, at)
            lengths = [row.length for row in rows]
            ready.append(backend.prepare(Inputs(q.clone(), cache.clone(), metadata, lengths)))
    with torch.inference_mode():
        out, seconds = timed([one.attend for one in ready], device)
        befores: list[Run] = [one.before for one in ready if one.before is not None]
        before = timed(befores, device)[1] if befores else 0.0
    less = before if ready[0].less else 0.0
    figures = figures_of(moved, worked, seconds - less, TELLING * less)
    return out, figures | ({"ms_before": round(1e3 * before, 4)} if befores else {})


def figures_of(moved: int, worked: int, seconds: float, noise: float = 0.0) -> dict[str, Any]:
    """What a time makes of bytes and operations; nothing where it is no longer than `noise`."""
    if seconds <= noise:
        return {"ms": None, "gb_per_s": None, "gflop_per_s": None}
    return {
        "ms": round(1e3 * seconds, 4),
        "gb_per_s": round(moved / seconds / 1e9, 2),
        "gflop_per_s": round(worked / seconds / 1e9, 2),
    }


def _inputs(shape: ModelConfig, rows: list[Span], device: torch.device) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(0)
    blocks = sum(-(-row.length // BLOCK) for row in rows)
    cache = allocate(1, shape.num_kv_heads, blocks, BLOCK, shape.head_dim, torch.bfloat16)[0]
    cache.copy_(torch.randn(cache.shape, generator=made))
    size = (sum(row.query for row in rows), shape.num_heads, shape.head_dim)
    q = torch.randn(size, generator=made).bfloat16()
    return q.to(device), cache.to(device)
