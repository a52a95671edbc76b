"""What one side of a comparison can do, and the figures that follow from continuing prompts."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from duel.child import Child, PeerFailed, tree_pss_mb
from duel.prompts import Prompts
from duel.rows import Figure, Format, Row

SHORT, PROMPT, OUTPUT = 16, 128, 128
"""tokens: of a prompt whose length should not matter, of a request's prompt, and of its answer"""

REPEATED, TEXTS = 256, 4
"""tokens of an answer that says a text again, and how many texts make a figure"""


class Measured(NamedTuple):
    """A figure in its row's unit, and whatever else was seen."""

    value: float
    detail: dict[str, Any]


class Peer(NamedTuple):
    """What the command line says of a peer: `NAME=PATH,key=value...`.

    path: of its folder of programs or its Python. models: by format; "" is that of every format.
    """

    name: str
    path: str
    models: Mapping[str, str]

    def model(self, kind: Format) -> str | None:
        """The model in a format, None where there is none."""
        return self.models.get(kind) or self.models.get("")


class Runner(ABC):
    """One side. figures: those that it has. Close it when it is not needed any more."""

    name: str
    figures: tuple[Figure, ...]

    @abstractmethod
    def can(self, row: Row) -> bool:
        """Whether this side can do a row."""

    @abstractmethod
    def measure(self, row: Row) -> Measured:
        """One figure. Raises PeerFailed."""

    @abstractmethod
    def close(self) -> None:
        """End every process. Rows may be measured again: they start anew."""


class GuestRunner(Runner):
    """A side that is a guest: a process that continues prompts. The last one that was used is kept."""

    figures: tuple[Figure, ...] = ("decode", "batch", "prefill", "first", "memory", "repeat")

    def __init__(self, peer: Peer, prompts: Prompts, threads: int, logs: Path) -> None:
        self.name = peer.name
        self.peer = peer
        self.prompts = prompts
        self.threads = threads
        self.logs = logs
        self._texts = prompts.texts()
        self._running: tuple[dict[str, Any], Child] | None = None
        self._warm = ""

    def can(self, row: Row) -> bool:
        return row.figure in self.figures and self.peer.model(row.format) is not None

    def options(self, row: Row) -> dict[str, Any]:
        """What the guest is told."""
        return {
            "model": self.peer.model(row.format),
            "threads": self.threads,
            "drafts": row.figure == "repeat",
        }

    def start(self, row: Row) -> Child:
        """A new guest."""
        log = self.logs / f"{self.name}.log"
        return Child(self.peer.path, self.name, self.options(row), log)

    def child(self, row: Row) -> Child:
        """A guest that has done what this row asks for, in small."""
        options = self.options(row)
        if self._running is None or self._running[0] != options:
            self.close()
            self._running = options, self.start(row)
            self._warm = ""
        child = self._running[1]
        if self._warm != row.name:
            count = row.sizes[0] if row.figure in ("decode", "batch", "share") else 1
            child.ask(self.prompts.some(count, SHORT), 4)
            self._warm = row.name
        return child

    def measure(self, row: Row) -> Measured:
        figures: dict[str, Callable[[Row], Measured]] = {
            "decode": self._decode,
            "batch": self._batch,
            "prefill": self._prefill,
            "first": self._first,
            "memory": self._memory,
            "repeat": self._repeat,
        }
        return figures[row.figure](row)

    def close(self) -> None:
        if self._running is not None:
            self._running[1].close()
            self._running = None

    def _decode(self, row: Row) -> Measured:
        return self.rate(self.child(row), row.sizes[0], SHORT)

    def rate(self, child: Child, count: int, length: int, **more: Any) -> Measured:
        """Tokens a second of requests once their first tokens are out."""
        first = child.ask(self.prompts.some(count, length), 1, **more)["seconds"]
        whole = child.ask(self.prompts.some(count, length), OUTPUT, **more)["seconds"]
        return rate_between(first, whole, count * (OUTPUT - 1))

    def _batch(self, row: Row) -> Measured:
        child, count = self.child(row), row.sizes[0]
        whole = child.ask(self.prompts.some(count, PROMPT), OUTPUT)
        return Measured(whole["tokens"] / whole["seconds"], {})

    def _prefill(self, row: Row) -> Measured:
        tokens = row.sizes[0]
        seconds = self.child(row).ask(self.prompts.some(1, tokens), 1)["seconds"]
        return Measured(tokens / seconds, {})

    def _repeat(self, row: Row) -> Measured:
        """The texts of a side's first figure are those of every other's first, and so on."""
        child, first, whole = self.child(row), 0.0, 0.0
        for _ in range(TEXTS):
            first += child.ask([next(self._texts)], 1)["seconds"]
            whole += child.ask([next(self._texts)], REPEATED)["seconds"]
        return rate_between(first, whole, TEXTS * (REPEATED - 1))

    def _first(self, row: Row) -> Measured:
        self.close()
        with self.start(row) as child:
            child.ask(self.prompts.some(1, SHORT), 1)
            return Measured(time.perf_counter() - child.begun, {})

    def _memory(self, row: Row) -> Measured:
        self.close()
        with self.start(row) as child:
            child.ask(self.prompts.some(1, SHORT), SHORT)
            return Measured(tree_pss_mb(child.process.pid), {})


def rate_between(first: float, whole: float, tokens: int) -> Measured:
    """Tokens a second between two runs, of which the longer made so many more. Raises PeerFailed."""
    if whole <= first:
        raise PeerFailed(
            f"expected a longer run to take longer, got {whole:.3f} s and {first:.3f} s"
        )
    return Measured(tokens / (whole - first), {"first_s": round(first, 4)})


def parse_peer(text: str) -> Peer:
    """NAME=PATH[,model=MODEL][,FORMAT=MODEL...]. Raises PeerFailed saying what is wrong with it."""
    head, *rest = text.split(",")
    name, equals, path = head.partition("=")
    if not equals or not path:
        raise PeerFailed(f"--peer: expected NAME=PATH,model=MODEL, got {text!r}")
    models: dict[str, str] = {}
    for part in rest:
        key, equals, value = part.partition("=")
        if key not in ("model", "bf16", "int8", "int4") or not value:
            raise PeerFailed(f"--peer {name}: expected model=, bf16=, int8= or int4=, got {part!r}")
        models["" if key == "model" else key] = value
    return Peer(name, path, models)
