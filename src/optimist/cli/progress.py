"""Shows on a terminal how far an engine's start has come."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from optimist.messages.control import Progress

WIDTH = 24


def show(stream: TextIO | None = None) -> Callable[[Progress], None] | None:
    """What to call with each Progress: draws one line over itself. None where nobody watches."""
    out = sys.stderr if stream is None else stream
    if not out.isatty():
        return None

    shown = ""

    def draw(progress: Progress) -> None:
        nonlocal shown
        if (new := line(progress)) != shown:
            shown = new
            out.write(new)
            out.flush()

    return draw


def line(progress: Progress) -> str:
    """The line for one Progress, the last of which wipes it."""
    if progress.done >= progress.total:
        return "\r\x1b[K"
    filled = WIDTH * progress.done // max(1, progress.total)
    share = 100 * progress.done // max(1, progress.total)
    return f"\r\x1b[K{progress.what} {'█' * filled}{'░' * (WIDTH - filled)} {share:3d} %"
