"""Throughput against batch, ours and the peers', below the floor's line. Needs matplotlib."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from duel.child import PeerFailed
from duel.ours import QUANTS
from duel.rows import Format
from duel.runner import OUTPUT, PROMPT
from optimist.bench import floor
from optimist.models.source import open_source

ROW = re.compile(r"batch-(\d+)-(\w+)")

Curves = dict[tuple[str, str], dict[int, float]]
"""tokens a second by batch, of a side in a format"""


def curves(results: Sequence[dict[str, Any]]) -> tuple[Curves, dict[str, list[float]]]:
    """Those of the rows batch-N-FORMAT, and the bandwidths that were probed, by format."""
    found: Curves = {}
    speeds: dict[str, list[float]] = {}
    for result in results:
        match = ROW.fullmatch(result["row"])
        if not match or "failed" in result:
            continue
        batch, kind = int(match[1]), match[2]
        for name, side in {"ours": result["ours"], **result["peers"]}.items():
            found.setdefault((name, kind), {})[batch] = side["median"]
            speeds.setdefault(kind, []).extend(side["gb_per_s"])
    return found, speeds


def ceiling(model: str, kind: Format, gb_per_s: float, batches: Sequence[int]) -> list[float]:
    """Tokens a second if every step took no longer than its reads, prompts not counted."""
    with open_source(model) as source:
        weights = floor.step_bytes(source, QUANTS[kind])
        token = floor.token_bytes(source, QUANTS[kind])
    context = PROMPT + OUTPUT // 2
    return [n * gb_per_s * 1e9 / (weights + n * token * context) for n in batches]


def draw(results: Sequence[dict[str, Any]], model: str, out: Path) -> None:
    """Write a PNG. Raises PeerFailed without matplotlib, and when there is no row to draw."""
    found, speeds = curves(results)
    if not found:
        raise PeerFailed("--plot: expected rows batch-N-FORMAT among the results, got none")
    try:
        import_module("matplotlib").use("Agg")
        pyplot: Any = import_module("matplotlib.pyplot")
    except ImportError as error:
        raise PeerFailed("--plot: expected matplotlib: pip install matplotlib") from error
    figure, axes = pyplot.subplots(figsize=(7, 4.5), dpi=110)
    for (name, kind), points in sorted(found.items()):
        batches = sorted(points)
        style = "o-" if name == "ours" else "s--"
        axes.plot(batches, [points[n] for n in batches], style, label=f"{name} {kind}")
    for kind, probed in speeds.items():
        batches = sorted({n for (_, k), points in found.items() if k == kind for n in points})
        speed = median(probed)
        top = ceiling(model, kind, speed, batches)  # type: ignore[arg-type]
        axes.plot(batches, top, ":", color="grey")
        axes.annotate(f"floor, {kind} at {speed:.0f} GB/s", (batches[-1], top[-1]), fontsize=8)
    axes.set(xscale="log", yscale="log", xlabel="requests at once", ylabel="output tokens a second")
    ticks = sorted({n for points in found.values() for n in points})
    axes.set_xticks(ticks, [str(n) for n in ticks])
    axes.minorticks_off()
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(out)
