"""A measured process: commands to its input, one JSON line back for each."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

GUESTS = Path(__file__).with_name("guests")


class PeerFailed(Exception):
    """A measured process ended or said something else than a figure. The text says what."""


class Child:
    """A guest that is starting. begun: when, as time.perf_counter() says.

    log: what it prints besides its answers goes there.
    """

    def __init__(
        self,
        python: str,
        guest: str,
        options: Mapping[str, Any],
        log: Path,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        self.begun = time.perf_counter()
        own = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
        with log.open("w", encoding="utf-8") as printed:
            self.process = subprocess.Popen(
                (python, str(GUESTS / f"{guest}_guest.py"), json.dumps(options)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=printed,
                text=True,
                env={**own, **(environ or {})},
            )

    def ask(self, prompts: Sequence[Sequence[int]], tokens: int, **more: Any) -> dict[str, Any]:
        """Continue prompts. `tokens` and `seconds` of the answer. Raises PeerFailed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            line = json.dumps({"prompts": prompts, "tokens": tokens, **more})
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            said = self.process.stdout.readline()
            answer: dict[str, Any] = json.loads(said)
        except (OSError, ValueError) as error:
            tail = self.log.read_text(encoding="utf-8", errors="replace")[-600:]
            raise PeerFailed(f"{self.process.args!r}: {error!r}; its last words: {tail}") from error
        expected = len(prompts) * tokens
        if answer["tokens"] != expected:
            raise PeerFailed(f"expected {expected} tokens, got {answer['tokens']}")
        return answer

    def close(self) -> None:
        """End its input and wait for it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        end(self.process)
        self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def end(process: subprocess.Popen[str]) -> None:
    """Wait a while, then insist."""
    for insist in (process.terminate, process.kill):
        try:
            process.wait(15)
            return
        except subprocess.TimeoutExpired:
            insist()
    process.wait()


def tree_pss_mb(pid: int) -> float:
    """Proportional set size of a process and everything below it, MiB."""
    from optimist.bench.placement import pss_mb

    total = pss_mb(pid)
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        below = [child for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        below = []
    return total + sum(tree_pss_mb(int(child)) for child in below)
