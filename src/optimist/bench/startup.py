"""What a start costs: importing, `--version`, the first token, and memory of each placement."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from statistics import median
from typing import Any, get_args

from optimist.actors.config import Placement

REPEATS = 5
ONE_TOKEN = ("generate", "The capital of France is", "--max-tokens", "1", "--model")


def measure(model: str) -> dict[str, Any]:
    """Seconds of process starts (best and median of a few), and each placement of one engine."""
    return {
        "import_s": _timed("-c", "import optimist", baseline=True),
        "version_s": _timed("-m", "optimist", "--version"),
        "generate_one_token_s": _timed("-m", "optimist", *ONE_TOKEN, model),
        "placements": {name: _placement(model, name) for name in get_args(Placement)},
    }


def _placement(model: str, placement: str) -> dict[str, Any]:
    module = ("-m", "optimist.bench.placement")
    result: dict[str, Any] = json.loads(_python(*module, model, placement))
    return result


def _timed(*arguments: str, baseline: bool = False) -> dict[str, float]:
    """Wall time of an interpreter with these arguments, less that of an empty one if asked."""
    taken = [_seconds(*arguments) for _ in range(REPEATS)]
    empty = min(_seconds("-c", "pass") for _ in range(REPEATS)) if baseline else 0.0
    return {"best": round(min(taken) - empty, 3), "median": round(median(taken) - empty, 3)}


def _seconds(*arguments: str) -> float:
    begun = time.perf_counter()
    _python(*arguments)
    return time.perf_counter() - begun


def _python(*arguments: str) -> str:
    command = [sys.executable, "-P", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
