"""What an engine freed is the system's again."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

from optimist.actors.runtime.memory import give_back

BLOCK, BLOCKS = 2**16, 1600


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def test_what_a_thread_freed_leaves_the_process() -> None:
    kept = []

    def use() -> None:
        blocks = [b"x" * BLOCK for _ in range(BLOCKS)]
        kept.append(b"y" * BLOCK)
        del blocks

    thread = Thread(target=use)
    thread.start()
    thread.join()
    before = resident()
    give_back()
    assert before - resident() > BLOCK * BLOCKS // 2
    assert kept
