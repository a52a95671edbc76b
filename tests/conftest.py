"""What every test gets: three event loops, the codec on in one process, and strictness."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from optimist.testing.drain import drained

if (
    signal.getsignal(signal.SIGINT) == signal.SIG_IGN
):  # as in a shell's background: not for children
    signal.signal(signal.SIGINT, signal.default_int_handler)

# An example may take long where others compute, and what was green with the same code stays green.
settings.register_profile(
    "any machine",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")

os.environ.setdefault("OPTIMIST_CODEC", "always")
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def run_root() -> Iterator[Path]:
    """Where this test's engines meet: a short path of its own. Nothing of them is left after it."""
    with tempfile.TemporaryDirectory(prefix="o-") as own, pytest.MonkeyPatch.context() as patch:
        root = Path(own, "run")
        root.mkdir(mode=0o700)
        patch.setenv("XDG_RUNTIME_DIR", str(root))
        with drained():
            yield root


@pytest.fixture
def quick_cells(monkeypatch: pytest.MonkeyPatch) -> str:
    """The module of child processes that beat often, for `bring_up`."""
    support = str(Path(__file__).parent / "support")
    monkeypatch.setenv("PYTHONPATH", support, prepend=os.pathsep)
    return "quick_cells"


@pytest.fixture(
    params=[
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
        pytest.param(("trio", {}), id="trio"),
    ]
)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param
