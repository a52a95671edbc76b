"""`optimist bench attention`: one layer's attention of a batch, by several kernels side by side."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from optimist.bench.batches import BLOCK, Span, batch_of, metadata_of, spans
from optimist.kernels import paged_attention
from optimist.kernels.choice import TORCH, triton_kernels
from optimist.kernels.device import Device, device_of
from optimist.kernels.gpus import chosen_device
from optimist.kernels.kv_cache import allocate
from optimist.kernels.metadata import Metadata
from optimist.messages.errors import ConfigError
from optimist.models.config import ModelConfig
from optimist.models.default import default_model
from optimist.models.source import open_source

Attention = Callable[[Tensor, Tensor, Metadata, float], Callable[[], Tensor]]
"""(q, cache, metadata, scale) to what attends; what it prepares for all layers of a step is not measured"""

REPEATS, LONGEST_S = 20, 2.0
"""runs of a backend, and seconds after which no further one begins"""


def _triton(q: Tensor, cache: Tensor, metadata: Metadata, scale: float) -> Callable[[], Tensor]:
    kernels = triton_kernels(q.device.type if q.device.type == "cpu" else str(q.device))
    plan = kernels.prepare(metadata, cache, dtype=q.dtype, window=None)
    return lambda: kernels.paged_attention(q, cache, plan, scale=scale)


def _gathered(q: Tensor, cache: Tensor, metadata: Metadata, scale: float) -> Callable[[], Tensor]:
    groups = TORCH.prepare(metadata, cache, dtype=q.dtype, window=None)
    return lambda: TORCH.paged_attention(q, cache, groups, scale=scale)


def _sdpa(q: Tensor, cache: Tensor, metadata: Metadata, scale: float) -> Callable[[], Tensor]:
    """Torch's own, row by row, over keys and values that are gathered from the blocks."""
    offsets = metadata.query_offsets.tolist()
    lengths = metadata.seq_lens.tolist()
    half = cache.shape[0] // 2

    def attend() -> Tensor:
        out = torch.empty_like(q)
        for row, length in enumerate(lengths):
            low, high = offsets[row], offsets[row + 1]
            blocks = metadata.block_table[row, : -(-length // BLOCK)].long()
            kv = cache.index_select(1, blocks).flatten(1, 2)[:, :length]
            query = high - low
            at = torch.arange(length - query, length, device=q.device)
            seen = torch.arange(length, device=q.device) <= at[:, None]
            # Without a mask torch may take its fastest kernel.
            plain = query in (1, length)
            y = F.scaled_dot_product_attention(
                q[low:high].transpose(0, 1)[None],
                kv[None, :half],
                kv[None, half:],
                attn_mask=None if plain else seen,
                is_causal=plain and query > 1,
                scale=scale,
                enable_gqa=True,
            )
            out[low:high] = y[0].transpose(0, 1)
        return out

    return attend


BACKENDS: dict[str, tuple[bool, Attention, str]] = {
    "triton": (True, _triton, "compiled"),
    "cpu": (False, _gathered, "gathers and batched products on the CPU"),
    "torch": (True, _sdpa, "torch's scaled_dot_product_attention, gathering included"),
}
"""whether it goes to the device, what it runs, and how"""


def measure(batch: str, backends: str, model: str = "", device: str = "auto") -> dict[str, Any]:
    """Milliseconds of each backend, and what that makes of bytes and operations.

    batch: see optimist.bench.batches. backends: names, separated by commas. model: whose heads; only
    its header is read. Raises ConfigError for a batch or a backend that is none.
    """
    rows, names = spans(batch), backends.split(",")
    for name in names:
        if name not in BACKENDS:
            raise ConfigError(f"--backends: expected {', '.join(BACKENDS)}, got {name!r}")
    with open_source(model or str(default_model())) as source:
        shape = source.config
    where = chosen_device(device)
    built = batch_of(rows)
    outputs: dict[str, Tensor] = {}
    found: dict[str, Any] = {}
    for name in names:
        there, attention, how = BACKENDS[name]
        at = device_of(where if there else "cpu")
        if name == "triton" and where == "cpu":
            how = "interpreted: its time says nothing"
        q, cache = _inputs(shape, rows, at.torch)
        with torch.inference_mode():
            attend = attention(q, cache, metadata_of(built, rows, at.torch), shape.head_dim**-0.5)
            outputs[name], seconds = _timed(attend, at)
        found[name] = {"device": str(at.torch), "how": how} | _figures(shape, rows, seconds)
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


def _inputs(shape: ModelConfig, rows: list[Span], device: torch.device) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(0)
    blocks = sum(-(-row.length // BLOCK) for row in rows)
    cache = allocate(1, shape.num_kv_heads, blocks, BLOCK, shape.head_dim, torch.bfloat16)[0]
    cache.copy_(torch.randn(cache.shape, generator=made))
    size = (sum(row.query for row in rows), shape.num_heads, shape.head_dim)
    q = torch.randn(size, generator=made).bfloat16()
    return q.to(device), cache.to(device)


def _timed(attend: Callable[[], Tensor], device: Device) -> tuple[Tensor, float]:
    """What it yields, and the median of its seconds, the first run left out."""
    times: list[float] = []

    def run() -> Tensor:
        device.settle()
        start = perf_counter()
        out = attend()
        device.settle()
        times.append(perf_counter() - start)
        return out

    begun, out = perf_counter(), run()
    while len(times) <= REPEATS and perf_counter() - begun < LONGEST_S:
        run()
    return out, median(times[1:] or times)


def _figures(shape: ModelConfig, rows: list[Span], seconds: float) -> dict[str, Any]:
    sizes = {"H": shape.num_heads, "G": shape.num_kv_heads, "D": shape.head_dim, "itemsize": 2}
    card, moved, worked = paged_attention.CARD, 0, 0
    for row in rows:
        axes = sizes | {"T": row.query, "R": 1, "C": row.length}
        moved += card.bytes(axes)
        # Of the last `query` columns each token sees its own share: half of a square.
        worked += card.flops(axes | {"C": row.length - (row.query - 1) // 2})
    return {
        "ms": round(1e3 * seconds, 4),
        "gb_per_s": round(moved / seconds / 1e9, 2),
        "gflop_per_s": round(worked / seconds / 1e9, 2),
    }
