"""The tables of docs/speculation.md, from docs/performance.json as benchmarks/record.py wrote it."""

from __future__ import annotations

from typing import Any

from performance_table import Table, record


def gains() -> Table:
    """Tokens a second with drafts and without, task by task."""
    head = ("proposer", "task", "tokens/s without", "with", "ratio", "middle half", "drafts right")
    rows: list[tuple[str, ...]] = []
    for proposer, tasks in record("speculation").items():
        for task, found in tasks.items():
            if "ratio" in found:
                rows.append((proposer, task.replace("_", " "), *_gain(found)))
    return head, rows


def optimum() -> Table:
    """Drafts of a device proposer that were accepted, beside how many can be."""
    head = ("proposer", "temperature", "drafts tried", "accepted", "at best")
    rows: list[tuple[str, ...]] = []
    for proposer, tasks in record("speculation").items():
        for task, found in tasks.items():
            if "optimum" in found:
                shares = (
                    f"{found[name]:.1%} ± {found[f'{name}_error']:.1%}"
                    for name in ("accepted", "optimum")
                )
                temperature = task.removeprefix("temperature_")
                rows.append((proposer, temperature, f"{found['tried']:,}", *shares))
    return head, rows


def overlap() -> Table:
    """What the worker waits for with each proposer."""
    head = ("proposer", "step", "waits for batch", "for drafts", "hands over", "batch ahead")
    rows = []
    for proposer, found in record("overlap").get("proposers", {}).items():
        waits = (found[name] for name in ("waits_for_batch", "waits_for_drafts", "hands_over"))
        shown = (f"{share:.2%}" for share in (*waits, found["batch_ahead"]))
        rows.append((proposer, f"{found['step_ms']:.2f} ms", *shown))
    return head, rows


def delays() -> Table:
    """What a plan that takes longer costs between two steps."""
    head = ("depth", "between steps", "with the delay", "hidden")
    rows = []
    delay = record("overlap").get("delay", {})
    for depth in (1, 2):
        if found := delay.get(f"depth_{depth}"):
            gaps = (
                " ".join(f"{gap:.2f}" for gap in found[name]) + " ms"
                for name in ("gap_ms", "gap_ms_delayed")
            )
            rows.append((str(depth), *gaps, f"{found['hidden']:.1%}"))
    return head, rows


def _gain(found: dict[str, Any]) -> tuple[str, ...]:
    low, high = found["ratio_quartiles"]
    right = f"{found['accepted']:,} of {found['drafted']:,}"
    speeds = (f"{found[name]:.0f}" for name in ("tokens_per_s", "tokens_per_s_drafting"))
    return (*speeds, f"{found['ratio']:.3f}", f"{low:.3f} to {high:.3f}", right)
