"""A peer's server: started, waited for, asked, stopped."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from duel import load
from duel.child import PeerFailed, end
from duel.prompts import Prompts
from duel.runner import OUTPUT, PROMPT, SHORT, Measured

PATIENCE = 900.0
"""seconds that a server may take to answer for the first time: some compile before"""


class Server:
    """A process that listens on `port`. begun: when it was started, as time.perf_counter() says."""

    def __init__(
        self, command: Sequence[str], log: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self.port = int(command[command.index("--port") + 1])
        self.log = log
        self.begun = time.perf_counter()
        with log.open("w", encoding="utf-8") as printed:
            self.process = subprocess.Popen(
                command,
                stdout=printed,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, **(environ or {})},
            )

    def first(self, path: str, body: Mapping[str, Any]) -> float:
        """Seconds from its start to its first answer. Raises PeerFailed."""
        while time.perf_counter() < self.begun + PATIENCE:
            if self.process.poll() is not None:
                break
            try:
                self.post(path, body)
                return time.perf_counter() - self.begun
            except OSError:
                time.sleep(0.01)
        tail = self.log.read_text(encoding="utf-8", errors="replace")[-600:]
        raise PeerFailed(f"{self.process.args!r}: expected an answer, got none; last words: {tail}")

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """An answer that is one JSON object. Raises OSError, a refusal included."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def loaded(self, prompts: Prompts, requests: int) -> Measured:
        """So many streams at once."""
        plain = load.body(prompts.some(1, SHORT)[0], 2) | {"stream": False}
        del plain["stream_options"]
        self.first("/v1/completions", plain)
        bodies = [load.body(prompt, OUTPUT) for prompt in prompts.some(requests, PROMPT)]
        found = load.figures(*load.run(self.port, bodies))
        return Measured(found.pop("tok_per_s"), dict(found))

    def close(self) -> None:
        """Tell it to stop, and wait."""
        self.process.terminate()
        end(self.process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def free_port() -> str:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
