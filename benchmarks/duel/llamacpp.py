"""llama.cpp: its own benchmark programs, and its server. The peer's path is the folder of its programs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from duel.child import PeerFailed, tree_pss_mb
from duel.prompts import Prompts
from duel.rows import Figure, Row
from duel.runner import OUTPUT, PROMPT, REPEATED, SHORT, TEXTS, Measured, Peer, Runner
from duel.server import Server, free_port

CONTEXT = 4096
ROOM = 32
"""tokens of a slot beyond prompt and answer"""


class LlamaCpp(Runner):
    """A model for each format, a GGUF file."""

    name = "llamacpp"
    figures: tuple[Figure, ...] = (
        "decode",
        "batch",
        "prefill",
        "http",
        "first",
        "memory",
        "repeat",
    )

    def __init__(self, peer: Peer, prompts: Prompts, threads: int, logs: Path) -> None:
        self.peer = peer
        self.prompts = prompts
        self._texts = prompts.texts()
        self.threads = str(threads)
        self.log = logs / "llamacpp.log"

    def can(self, row: Row) -> bool:
        return row.figure in self.figures and self.peer.model(row.format) is not None

    def measure(self, row: Row) -> Measured:
        figures: dict[str, Callable[[Row], Measured]] = {
            "decode": self._decode,
            "batch": self._batch,
            "prefill": self._prefill,
            "http": self._http,
            "first": self._first,
            "memory": self._memory,
            "repeat": self._repeat,
        }
        return figures[row.figure](row)

    def close(self) -> None:
        """Nothing outlives a figure."""

    def _decode(self, row: Row) -> Measured:
        if row.sizes[0] > 1:
            return self._batched(row, SHORT, phase=True)
        return self._bench(row, "-p", "0", "-n", str(OUTPUT), "-d", str(SHORT))

    def _prefill(self, row: Row) -> Measured:
        return self._bench(row, "-p", str(row.sizes[0]), "-n", "0")

    def _batch(self, row: Row) -> Measured:
        return self._batched(row, PROMPT, phase=False)

    def _bench(self, row: Row, *what: str) -> Measured:
        said = self._run("llama-bench", row, "-t", self.threads, "-r", "2", *what, "-o", "json")
        return bench_figure(said)

    def _batched(self, row: Row, prompt: int, *, phase: bool) -> Measured:
        rows = row.sizes[0]
        sizes = ("-npp", str(prompt), "-ntg", str(OUTPUT), "-npl", str(rows))
        room = ("-c", str(rows * (prompt + OUTPUT + ROOM)), "-b", "2048", "-ub", "512")
        threads = ("-t", self.threads, "-tb", self.threads)
        said = self._run(
            "llama-batched-bench", row, *threads, *room, *sizes, "--output-format", "jsonl"
        )
        return batched_figure(said, phase=phase)

    def _run(self, program: str, row: Row, *options: str) -> str:
        command = (f"{self.peer.path}/{program}", "-m", str(self.peer.model(row.format)), *options)
        with self.log.open("w", encoding="utf-8") as printed:
            done = subprocess.run(
                command,
                check=False,
                stdout=subprocess.PIPE,
                stderr=printed,
                text=True,
                env=self._environ(),
            )
        if done.returncode:
            raise PeerFailed(f"{program}: status {done.returncode}, see {self.log}")
        return done.stdout

    def _environ(self) -> dict[str, str]:
        own = {"LD_LIBRARY_PATH": self.peer.path, "OMP_NUM_THREADS": self.threads}
        return {**os.environ, **own}

    def _serve(self, row: Row, context: int, slots: int, *more: str) -> Server:
        command = [f"{self.peer.path}/llama-server", "-m", str(self.peer.model(row.format))]
        command += ["-t", self.threads, "-tb", self.threads, "--host", "127.0.0.1"]
        command += ["--port", free_port(), "-c", str(context), "-np", str(slots), *more]
        return Server(command, self.log, self._environ())

    def _completion(self, tokens: int, prompt: list[int]) -> dict[str, Any]:
        plain = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True}
        return {**plain, "cache_prompt": False}

    def _http(self, row: Row) -> Measured:
        slots = row.sizes[0]
        room = slots * (PROMPT + OUTPUT + ROOM)
        with self._serve(row, room, slots, "--no-cache-prompt") as server:
            return server.loaded(self.prompts, slots)

    def _first(self, row: Row) -> Measured:
        with self._serve(row, CONTEXT, 1) as server:
            asked = self._completion(1, self.prompts.some(1, SHORT)[0])
            return Measured(server.first("/completion", asked), {})

    def _memory(self, row: Row) -> Measured:
        with self._serve(row, CONTEXT, 1) as server:
            server.first("/completion", self._completion(SHORT, self.prompts.some(1, SHORT)[0]))
            return Measured(tree_pss_mb(server.process.pid), {})

    def _repeat(self, row: Row) -> Measured:
        with self._serve(row, CONTEXT, 1, "--spec-type", "ngram-mod") as server:
            server.first("/completion", self._completion(1, self.prompts.some(1, SHORT)[0]))
            took = 0.0
            for _ in range(TEXTS):
                next(self._texts)  # others read it to say nothing but one token
                asked = self._completion(REPEATED, next(self._texts))
                took += server.post("/completion", asked)["timings"]["predicted_ms"] / 1000
            return Measured(TEXTS * REPEATED / took, {})


def bench_figure(said: str) -> Measured:
    """Tokens a second, median of the repetitions, of what llama-bench prints. Raises PeerFailed."""
    try:
        (found,) = json.loads(said)
        values = found["samples_ts"]
        return Measured(median(values), {"build": found.get("build_commit", "")})
    except (ValueError, KeyError, TypeError) as error:
        raise PeerFailed(f"llama-bench: expected one JSON object, got {said[-300:]!r}") from error


def batched_figure(said: str, *, phase: bool) -> Measured:
    """Tokens a second of what llama-batched-bench prints: of the whole time, or of decoding alone.

    Raises PeerFailed.
    """
    for line in said.splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            decode = found["speed_tg"]
            whole = found["pl"] * found["tg"] / found["t"]
            return Measured(decode if phase else whole, {"decode_tok_per_s": round(decode, 1)})
    raise PeerFailed(f"llama-batched-bench: expected a JSON line, got {said[-300:]!r}")
