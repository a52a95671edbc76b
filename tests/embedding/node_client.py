"""Runs the tests of the Node client against a scripted engine: `python tests/embedding/node_client.py`.

Needs node and npm, so it is a program of its own and no part of the suite.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import anyio.to_thread

from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS
from optimist.testing.scripted_engine import ScriptedEngine
from optimist.zmq_front import serve_zmq

EXAMPLE = Path(__file__).parents[2] / "examples" / "node"


def script(admit: Admit) -> list[int]:
    """A text that depends on prompt and seed."""
    text = f"{len(admit.prompt_ids)} {admit.prompt_ids[0]} {admit.sampling.temperature and admit.sampling.seed}"
    return [*(text * 40).encode(), EOS]


def run_tests(endpoint: str) -> int:
    """Install what the client needs, then its tests. Returns the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(
            EXAMPLE, Path(folder) / "node", ignore=shutil.ignore_patterns("node_modules")
        )
        subprocess.run(["npm", "install", "--no-audit", "--no-fund"], cwd=copy, check=True)
        environment = {**os.environ, "ENDPOINT": endpoint}
        tests = subprocess.run(["npm", "test"], cwd=copy, env=environment, timeout=120, check=False)
        return tests.returncode


async def main() -> int:
    async with (
        ScriptedEngine(script) as engine,
        serve_zmq(engine.gateway, "tcp://127.0.0.1:*") as endpoint,
    ):
        return await anyio.to_thread.run_sync(run_tests, endpoint)


if __name__ == "__main__":
    sys.exit(anyio.run(main))
