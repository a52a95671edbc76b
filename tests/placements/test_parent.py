"""The process that holds the engine is killed: nothing of the engine outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import integer_stage
import pytest

from optimist.actors.runtime.rundir import run_directory

HOST = """
import sys
sys.path.insert(0, sys.argv[1])
import anyio
from integer_stage import Audience, config
from waiting import until
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.testing.following import Asked
from optimist.troupe import bring_up

async def main():
    placement = config("processes", sleep_ms=2.0)
    async with bring_up(placement, ByteTokenizer(272)) as troupe:
        audience = Audience(troupe.gateway, [Asked(prompt_ids=(1,), max_tokens=250)] * 4)
        async with anyio.create_task_group() as group:
            group.start_soon(audience.follow)
            await until(lambda: audience.delivered > 20)
            print(*troupe.pids.values(), flush=True)
            await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_it_and_the_next_start_clears_the_directory(
    how: signal.Signals, run_root: Path
) -> None:
    support = str(Path(integer_stage.__file__).parent)
    with subprocess.Popen(
        [sys.executable, "-c", HOST, support], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as host:
        assert host.stdout is not None
        pids = [int(pid) for pid in host.stdout.readline().split()]
        assert len(pids) == 3 and not any(integer_stage.gone(pid) for pid in pids)
        host.send_signal(how)
        assert host.wait(60) != 0
    limit = time.monotonic() + 60
    while not all(integer_stage.gone(pid) for pid in pids):
        assert time.monotonic() < limit, "an orphan is left"
        time.sleep(0.01)
    left = list(run_root.iterdir())
    assert len(left) == (0 if how == signal.SIGINT else 1)
    with run_directory() as mine:
        assert list(run_root.iterdir()) == [mine]
    assert os.listdir(run_root) == []
