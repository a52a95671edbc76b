"""What is loaded when: importing and asking for the version stay light."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from house import ROOT

LIGHT = {"optimist", "msgspec", "typing_extensions"}


def loaded(code: str) -> set[str]:
    """Top-level modules outside the standard library that a fresh interpreter has loaded."""
    report = "import json, sys; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{code}\n{report}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    modules = json.loads(done.stdout.splitlines()[-1])
    found = {m for m in modules if m not in sys.stdlib_module_names}
    return {m for m in found if not m.startswith("_") and not m.endswith("customize")}


def test_importing_the_package_loads_msgspec_and_nothing_else() -> None:
    assert loaded("import optimist") <= LIGHT


def test_asking_for_the_version_loads_msgspec_and_nothing_else() -> None:
    assert loaded("from optimist.cli.main import main\nmain(['--version'])") <= LIGHT


@pytest.mark.parametrize(
    "actor",
    [
        "gateway.actor:Gateway",
        "scheduler.actor:Scheduler",
        "builder.actor:Builder",
        "worker.actor:Worker",
        "worker.native_executor:NativeExecutor",
    ],
)
def test_only_the_torch_executor_loads_torch(actor: str) -> None:
    module, kind = actor.split(":")
    modules = loaded(f"from optimist.actors.{module} import {kind}")
    assert {"torch", "tokenizers", "starlette", "uvicorn"} & modules == set()


def test_importing_changes_nothing_around_it() -> None:
    code = (
        "import asyncio, logging, signal, threading\n"
        "def state():\n"
        "    return (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM),\n"
        "            type(asyncio.get_event_loop_policy()), list(logging.root.handlers),\n"
        "            logging.root.level, threading.active_count())\n"
        "before = state()\n"
        "import optimist\n"
        "assert state() == before\n"
    )
    loaded(code)
