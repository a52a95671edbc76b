"""Three type checkers accept the right uses of the contract and report each wrong one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACT = Path("tests/typing/contract")
BIN = Path(sys.executable).parent
FILES = [str(CONTRACT / "good.py"), str(CONTRACT / "misuse.py")]
CHECKERS = {
    "mypy": [str(BIN / "mypy"), "--strict", "--no-incremental", *FILES],
    "pyright": [str(BIN / "pyright"), "--pythonpath", sys.executable, "-p", str(CONTRACT)],
    "ty": [
        *(str(BIN / "ty"), "check", "--output-format", "concise", "--python", sys.executable),
        *FILES,
    ],
}


@pytest.fixture(scope="module", params=CHECKERS)
def errors(request: pytest.FixtureRequest) -> dict[str, set[int]]:
    """Of each file, the lines with an error in the checker's opinion."""
    command = CHECKERS[request.param]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, set[int]] = {"good.py": set(), "misuse.py": set()}
    for name, line in re.findall(r"(\w+\.py):(\d+)(?::\d+)?:? (?:- )?error", done.stdout):
        found[name].add(int(line))
    return found


def test_right_uses_pass(errors: dict[str, set[int]]) -> None:
    assert errors["good.py"] == set()


def test_every_planted_misuse_is_reported_and_nothing_else(errors: dict[str, set[int]]) -> None:
    lines = (ROOT / CONTRACT / "misuse.py").read_text().splitlines()
    planted = {at for at, line in enumerate(lines, 1) if "# BAD" in line}
    assert len(planted) > 20
    assert errors["misuse.py"] == planted
