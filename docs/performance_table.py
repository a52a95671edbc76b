"""The tables of docs/performance.md, from the records that benchmarks/record.py wrote, one of each machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MAIN, AMX = "performance.json", "performance-amx.json"

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""head and rows"""


def comparison(name: str = MAIN) -> Table:
    """Ours beside the best peer, row by row."""
    head = ("row", "ours", "best peer", "ratio", "asked", "GB/s beside", "")
    return head, [_row(found) for found in record("rows", name)]


def phases(name: str = MAIN) -> Table:
    """Milliseconds of a step and of its phases."""
    head: tuple[str, ...] = ()
    rows = []
    for quant, steps in record("anatomy", name).items():
        for step in steps:
            head = ("", "step", "of the floor", *step["phases_ms"])
            share = step["floor_ms"] / step["step_ms"]
            times = (f"{taken:.2f}" for taken in step["phases_ms"].values())
            format_ = "bf16" if quant == "none" else quant
            first = f"{format_}, {step['rows']} rows"
            rows.append((first, f"{step['step_ms']:.2f} ms", f"{share:.0%}", *times))
    return head, rows


def prompts(name: str = MAIN) -> Table:
    """Rates of a prompt beside the peak of multiplications."""
    head = ("format", "prompt", "threads", "tokens a second", "their peak", "of the peak")
    rows: list[tuple[str, ...]] = []
    for quant, found in record("prompts", name).items():
        shown = "bf16" if quant == "none" else quant
        peak, share = f"{found['peak_gops']:.0f} GOP/s", f"{found['of_the_peak']:.0%}"
        sizes = f"{found['prompt']}", f"{found['threads']}"
        rows.append((shown, *sizes, f"{found['tokens_per_s']:.0f}", peak, share))
    return head, rows


def quality() -> Table:
    """Perplexity and agreement by format."""
    head = ("format", "perplexity", "lost", "top-1 agreement", "KL, nats")
    rows: list[tuple[str, ...]] = []
    for name, found in record("quality").items():
        if isinstance(found, dict):
            lost = f"{found['perplexity_lost_percent']:+.2f} %" if name != "float32" else ""
            agreed = f"{found['top1_agreement']:.1%}"
            shown = name.replace("none", "bf16").replace("bfloat16", "bf16").replace("/", ", KV ")
            rows.append((shown, f"{found['perplexity']:.2f}", lost, agreed, f"{found['kl']:.4f}"))
    return head, rows


def record(part: str, name: str = MAIN) -> Any:
    """A part of a record; empty before it was measured."""
    path = Path(__file__).with_name(name)
    return json.loads(path.read_text(encoding="utf-8")).get(part, {})


def _row(found: dict[str, Any]) -> tuple[str, ...]:
    if "failed" in found:
        return (found["row"], *("-",) * 5, "not measured")
    ours, ratio, best = found["ours"], found.get("ratio"), found.get("best_peer", "-")
    if best in found["peers"]:
        best = f"{best} {found['peers'][best]['median']:g}"
    shown = f"{ratio['median']:g} ({ratio['low']:g} to {ratio['high']:g})" if ratio else "-"
    asked = "-" if found["asked"] is None else f"{found['asked']:g}"
    if wait := found.get("ttft_ratio"):
        shown += f"; first token {wait['median']:g}"
        asked += f"; {found['ttft_asked']:g}"
    sides = (ours, *found["peers"].values())
    speeds = [speed for side in sides for speed in side["gb_per_s"]]
    return (
        found["row"],
        f"{ours['median']:g} {found['unit']}",
        best,
        shown,
        asked,
        f"{min(speeds):.0f} to {max(speeds):.0f}",
        _verdict(found),
    )


def _verdict(found: dict[str, Any]) -> str:
    if found["asked"] is None:
        return "reported"
    return {True: "met", False: "**missed**", None: "nothing beside it"}[found["met"]]
