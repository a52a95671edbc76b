"""One engine in one placement, measured in a process of its own: `python -m optimist.bench.placement`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import anyio
import msgspec

from optimist.actors.config import EngineConfig
from optimist.engine import Engine
from optimist.messages.params import SamplingParams

PROMPT = "The capital of France is"


async def measure(model: str, placement: str) -> dict[str, Any]:
    """Seconds until it is ready and until its first token, and MiB it holds after a short answer."""
    config = msgspec.convert({"placement": placement}, EngineConfig)
    begun = time.perf_counter()
    async with Engine(model, config.placement) as engine:
        ready = time.perf_counter()
        await engine.complete(PROMPT, SamplingParams(max_tokens=1, temperature=0))
        first = time.perf_counter()
        await engine.complete(PROMPT, SamplingParams(max_tokens=32, temperature=0))
        own, children = pss_mb("self"), [pss_mb(pid) for pid in child_pids()]
    return {
        "ready_s": round(ready - begun, 3),
        "first_token_s": round(first - begun, 3),
        "pss_mb": round(own + sum(children), 1),
        "pss_mb_of_caller": round(own, 1),
        "processes": 1 + len(children),
    }


def pss_mb(pid: int | str) -> float:
    """Proportional set size of a process in MiB, 0 when it has gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0.0
    kilobytes = [int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")]
    return sum(kilobytes) / 1024


def child_pids() -> list[int]:
    """Processes that this one started and that live."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


if __name__ == "__main__":
    print(msgspec.json.encode(anyio.run(measure, sys.argv[1], sys.argv[2])).decode())
