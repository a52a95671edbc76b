"""The inner side of a measured process: commands come as JSON lines, answers go out as JSON lines.

Runs in the peer's own environment: the standard library and the peer, nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

Generate = Callable[[list[list[int]], int], int]
"""Continues prompts of token ids by so many tokens each, greedily and past every end; all at once.
Returns how many tokens came."""


def own_output() -> TextIO:
    """Standard output for answers alone: what the peer prints goes to standard error from now on."""
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    return answers


def serve(load: Callable[[dict[str, Any]], Generate]) -> None:
    """Answer until the input ends. load: makes the peer ready, from the options of the command line."""
    import time

    answers = own_output()
    generate = load(json.loads(sys.argv[1]))
    for line in sys.stdin:
        asked = json.loads(line)
        begun = time.perf_counter()
        tokens = generate(asked["prompts"], asked["tokens"])
        seconds = time.perf_counter() - begun
        print(json.dumps({"tokens": tokens, "seconds": seconds}), file=answers, flush=True)
