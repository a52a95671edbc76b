"""Three type checkers accept the right uses of the contract and report each wrong one.

contract: lengths and bounds. union: exact and optimistic plans, batches, metadata, and their consumers.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from house import ROOT

BIN = Path(sys.executable).parent
HERE = Path("tests/typing")
PLANTED = {"contract": 40, "union": 50}
"""folders, and how many misuses each has at least"""

FILES = [str(HERE / folder / file) for folder in PLANTED for file in ("good.py", "misuse.py")]
CHECKERS = {
    "mypy": ["mypy", "--strict", *FILES],
    "pyright": ["pyright", "--pythonpath", sys.executable, "-p", str(HERE)],
    "ty": ["ty", "check", "--output-format", "concise", "--python", sys.executable, *FILES],
}


@pytest.fixture(scope="module", params=CHECKERS)
def checker(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def errors(checker: str) -> dict[str, set[int]]:
    """Of each file, the lines with an error in the checker's opinion."""
    program, *arguments = CHECKERS[checker]
    command = [str(BIN / program), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, set[int]] = {file: set() for file in FILES}
    for file, line in re.findall(
        rf"({HERE}/\w+/\w+\.py):(\d+)(?::\d+)?:? (?:- )?error", done.stdout
    ):
        found[file].add(int(line))
    return found


@pytest.mark.parametrize("folder", PLANTED)
def test_right_uses_pass(errors: dict[str, set[int]], folder: str) -> None:
    assert errors[f"{HERE}/{folder}/good.py"] == set()


@pytest.mark.parametrize("folder", PLANTED)
def test_every_planted_misuse_is_reported_and_nothing_else(
    errors: dict[str, set[int]], checker: str, folder: str
) -> None:
    file = f"{HERE}/{folder}/misuse.py"
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    planted = {
        at
        for at, line in enumerate(lines, 1)
        if (bad := re.search(r"# BAD(?: \[(\w+)\])?", line)) and bad[1] in (None, checker)
    }
    assert len(planted) > PLANTED[folder]
    assert errors[file] == planted
