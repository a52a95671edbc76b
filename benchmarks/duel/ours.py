"""Our side: the engine as a program holds it, its server, its commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from duel.child import Child, PeerFailed
from duel.prompts import Prompts
from duel.rows import Figure, Row
from duel.runner import PROMPT, SHORT, GuestRunner, Measured, Peer
from duel.server import Server, free_port
from optimist.actors.config import WorkerConfig
from optimist.bench import floor
from optimist.models.quantisation import Quant
from optimist.models.source import open_source

QUANTS: dict[str, Quant] = {"bf16": "none", "int8": "int8", "int4": "int4"}
CONTEXT = 4096
"""tokens of cache where memory is measured"""

BENCHMARKS = Path(__file__).parents[1]


class Ours(GuestRunner):
    """model: path of a GGUF file or Hugging Face folder."""

    figures: tuple[Figure, ...] = (
        *GuestRunner.figures,
        *("http", "share", "scheduler", "busy"),
    )

    def __init__(self, model: str, prompts: Prompts, threads: int, logs: Path) -> None:
        super().__init__(Peer("optimist", sys.executable, {"": model}), prompts, threads, logs)
        self._server: Server | None = None

    def options(self, row: Row) -> dict[str, Any]:
        """Those of the engine."""
        found: dict[str, Any] = {
            "model": self.peer.model(row.format),
            "placement": row.placement,
            "quant": QUANTS[row.format],
            "threads": self.threads,
        }
        if row.figure == "memory":
            found |= {"max_model_len": CONTEXT, "kv_blocks": CONTEXT // WorkerConfig().block_size}
        if row.figure == "repeat":
            found["proposer"] = "suffix"
        return found

    def measure(self, row: Row) -> Measured:
        match row.figure:
            case "http":
                return self._http(row)
            case "share":
                return self._share(row)
            case "busy":
                return self._busy(row)
            case "scheduler":
                return _scheduler(row)
            case "first":
                return self._one_shot(row)
            case _:
                return super().measure(row)

    def close(self) -> None:
        super().close()
        if self._server is not None:
            self._server.close()
            self._server = None

    def start(self, row: Row) -> Child:
        log = self.logs / "optimist.log"
        return Child(self.peer.path, "optimist", self.options(row), log)

    def _http(self, row: Row) -> Measured:
        if self._server is None:
            super().close()
            command = [sys.executable, "-P", "-m", "optimist", "serve", "--port", free_port()]
            command += ["--model", str(self.peer.model(row.format)), "--model-name", "m"]
            self._server = Server(command, self.logs / "optimist-server.log")
        return self._server.loaded(self.prompts, row.sizes[0])

    def _share(self, row: Row) -> Measured:
        """Bytes that the steps had to read, over what memory gave in that time."""
        with open_source(str(self.peer.model(row.format))) as source:
            weights = floor.step_bytes(source, QUANTS[row.format])
            token = floor.token_bytes(source, QUANTS[row.format])
        count = row.sizes[0]
        before = floor.bandwidth(weights, self.threads)
        rate = self.rate(self.child(row), count, PROMPT).value
        speed = (before + floor.bandwidth(weights, self.threads)) / 2
        size = weights + count * token * (PROMPT + PROMPT // 2)
        return Measured(rate / count * size / speed, {"tok_per_s": round(rate, 1)})

    def _busy(self, row: Row) -> Measured:
        """A step's time beside a loop that computes for three tenths of its time, over an idle one's."""
        child = self.child(row)
        idle = self.rate(child, 1, SHORT).value
        busy = self.rate(child, 1, SHORT, busy=True).value
        return Measured(idle / busy, {"idle": round(idle, 1), "busy": round(busy, 1)})

    def _one_shot(self, row: Row) -> Measured:
        self.close()
        ids = ",".join(map(str, self.prompts.some(1, SHORT)[0]))
        command = [sys.executable, "-P", "-m", "optimist", "generate", "--prompt-ids", ids]
        command += ["--model", str(self.peer.model(row.format)), "--max-tokens", "1"]
        begun = time.perf_counter()
        with subprocess.Popen(
            [*command, "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            if not process.stdout.read(1):
                raise PeerFailed(f"{' '.join(command)}: expected a token, got none")
            first = time.perf_counter() - begun
        return Measured(first, {"whole_s": round(time.perf_counter() - begun, 3)})


def _scheduler(row: Row) -> Measured:
    """Milliseconds of planning and settling one step."""
    running, drafts = row.sizes
    script = str(BENCHMARKS / "scheduler.py")
    options = ["--sizes", str(running), "--drafts", str(drafts), "--steps", "60", "--json"]
    done = subprocess.run(
        [sys.executable, script, *options],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    found = json.loads(done.stdout)
    return Measured((found["plan_us"] + found["settle_us"]) / 1000, found)
