"""Measuring in pairs: one side, then the other, with the memory bandwidth probed beside each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

from duel.rows import ABSOLUTE, TTFT, Row
from duel.runner import Measured, Runner


class Sample(NamedTuple):
    """A figure. gb_per_s: bandwidth just before and just after it, their mean."""

    value: float
    gb_per_s: float
    detail: dict[str, Any]


def take(runner: Runner, row: Row, probe: Callable[[], float]) -> Sample:
    """One figure of one side. probe: bytes a second, now."""
    before = probe()
    measured: Measured = runner.measure(row)
    return Sample(measured.value, (before + probe()) / 2e9, measured.detail)


def compare(
    row: Row, ours: Runner, peers: Sequence[Runner], pairs: int, probe: Callable[[], float]
) -> dict[str, Any]:
    """Rounds in which every side has its turn; who begins changes from round to round."""
    sides = [*peers, ours]
    samples: dict[str, list[Sample]] = {side.name: [] for side in sides}
    for number in range(pairs):
        for side in sides if number % 2 == 0 else reversed(sides):
            samples[side.name].append(take(side, row, probe))
    return summary(row, samples.pop(ours.name), samples)


def summary(row: Row, ours: Sequence[Sample], peers: dict[str, list[Sample]]) -> dict[str, Any]:
    """Medians of a row, ratios to the best peer pair by pair with their spread, and what was asked.

    met: None where nothing was there to be compared with, or nothing is asked.
    """
    found: dict[str, Any] = {
        "row": row.name,
        "unit": row.unit,
        "ours": _side(ours),
        "peers": {name: _side(samples) for name, samples in peers.items()},
        "asked": row.ratio,
    }
    best = _best(row, peers)
    if best:
        ratios = [mine.value / theirs.value for mine, theirs in zip(ours, peers[best], strict=True)]
        found |= {"best_peer": best, "ratio": _spread(ratios)}
    elif row.record is not None:
        ratios = [mine.value / row.record for mine in ours]
        found |= {"best_peer": f"on record: {row.record:g}", "ratio": _spread(ratios)}
    if row.figure == "http" and best:
        waits = [
            mine.detail["ttft_ms"] / theirs.detail["ttft_ms"]
            for mine, theirs in zip(ours, peers[best], strict=True)
        ]
        found |= {"ttft_ratio": _spread(waits), "ttft_asked": TTFT}
        found["met"] = _met(row, found["ratio"]["median"]) and median(waits) <= TTFT
    elif row.figure in ABSOLUTE:
        found["met"] = _met(row, found["ours"]["median"])
    else:
        found["met"] = _met(row, found["ratio"]["median"]) if "ratio" in found else None
    return found


def _met(row: Row, value: float) -> bool | None:
    if row.ratio is None:
        return None
    return value >= row.ratio if row.more_is_better else value <= row.ratio


def _best(row: Row, peers: dict[str, list[Sample]]) -> str:
    choose = max if row.more_is_better else min
    names = [name for name, samples in peers.items() if samples]
    return choose(names, key=lambda name: median(s.value for s in peers[name]), default="")


def _side(samples: Sequence[Sample]) -> dict[str, Any]:
    return {
        "median": _rounded(median(sample.value for sample in samples)),
        "values": [_rounded(sample.value) for sample in samples],
        "gb_per_s": [round(sample.gb_per_s, 1) for sample in samples],
        "detail": samples[-1].detail,
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "median": _rounded(median(values)),
        "low": _rounded(min(values)),
        "high": _rounded(max(values)),
    }


def _rounded(value: float) -> float:
    """Four digits that mean something."""
    return float(f"{value:.4g}")
