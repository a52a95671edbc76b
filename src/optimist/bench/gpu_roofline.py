"""Attention of a GPU against what its memory and its matrix units can do, measured in the same run."""

from __future__ import annotations

from statistics import median
from typing import Any

import torch

from optimist.bench import attention
from optimist.bench.attention_backends import has_flash
from optimist.bench.batches import spans
from optimist.bench.timing import timed
from optimist.kernels import paged_attention
from optimist.kernels.device import Device, device_of
from optimist.models.source import open_source

BATCHES = ("64q1s1k", "8q1s1k_2q512s4k", "1q4k", "8q2k")

COPIED_BYTES, MATRIX, TRIES = 1 << 30, 8192, 5


def measure(model: str, device: str, kernels: str) -> dict[str, Any]:
    """Every batch's share of its roofline, beside torch's own. kernels: `triton`, or `torch`, which has no
    own attention: then it is torch's share.
    """
    at = device_of(device)
    with torch.inference_mode():
        copied, worked = copy_speed(at), matrix_speed(at)
    found = {batch: share(batch, model, device, kernels, (copied, worked)) for batch in BATCHES}
    return {
        "copy_gb_per_s": round(copied / 1e9, 1),
        "matrix_tflop_per_s": round(worked / 1e12, 1),
        "batches": found,
        "right": all(one["agrees"] for one in found.values()),
    }


def copy_speed(device: Device) -> float:
    """Bytes a second that a large copy reads and writes."""
    with device.step():
        source = torch.zeros(COPIED_BYTES, dtype=torch.uint8, device=device.torch)
        target = torch.empty_like(source)
    return 2 * COPIED_BYTES / _seconds(lambda: target.copy_(source), device)


def matrix_speed(device: Device) -> float:
    """Operations a second of a large product in bfloat16."""
    with device.step():
        one = torch.zeros((MATRIX, MATRIX), dtype=torch.bfloat16, device=device.torch).normal_()
        out = torch.empty_like(one)
    return 2 * MATRIX**3 / _seconds(lambda: torch.mm(one, one, out=out), device)


def _seconds(run: Any, device: Device) -> float:
    return median(timed([run], device)[1] for _ in range(TRIES))


def share(
    batch: str, model: str, device: str, kernels: str, speeds: tuple[float, float]
) -> dict[str, Any]:
    """Of a batch: milliseconds, and the share of the time that memory or matrix units need at least.

    speeds: bytes and operations a second.
    """
    others = ["torch", *(["flash"] if has_flash() else [])]
    names = [kernels, *(name for name in others if name != kernels)]
    said = attention.measure(batch, ",".join(names), model, device)
    with open_source(model) as source:
        moved, worked = attention.work(source.config, spans(batch))
    memory, matrices = moved / speeds[0], worked / speeds[1]
    times = {name: figures["ms"] for name, figures in said["backends"].items()}
    ours = times[kernels]
    return {
        **{f"{name}_ms": value for name, value in times.items()},
        "bound": "memory" if memory > matrices else "matrices",
        "of_roofline": round(1e3 * max(memory, matrices) / ours, 3),
        "times_torch": round(times["torch"] / ours, 3),
        **({"times_flash": round(times["flash"] / ours, 3)} if "flash" in times else {}),
        "loose_bound_ms": said["backends"][kernels].get("ms_loose_bound"),
        "largest_difference": said["largest_difference"],
        "agrees": said["largest_difference"] <= tolerance(),
    }


def tolerance() -> float:
    """How far two kernels' outputs, which are about 1, may be apart in bfloat16."""
    return sum(paged_attention.CARD.tolerance[torch.bfloat16])
