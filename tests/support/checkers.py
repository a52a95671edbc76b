"""Three type checkers, asked about a folder of examples."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from house import ROOT

BIN = Path(sys.executable).parent
CHECKERS = ("mypy", "pyright", "ty")


def errors(checker: str, folder: Path) -> dict[str, set[int]]:
    """Of each file in the folder, relative to the root, the lines with an error in its opinion."""
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / folder).glob("*.py"))
    command = {
        "mypy": [str(BIN / "mypy"), "--strict", "--no-incremental", *files],
        "pyright": [str(BIN / "pyright"), "--pythonpath", sys.executable, "-p", str(folder)],
        "ty": [
            *(str(BIN / "ty"), "check", "--output-format", "concise", "--python", sys.executable),
            *files,
        ],
    }[checker]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{checker}: {done.stdout}{done.stderr}")
    found: dict[str, set[int]] = {Path(name).name: set() for name in files}
    for name, line in re.findall(r"(\w+\.py):(\d+)(?::\d+)?:? (?:- )?error", done.stdout):
        found[name].add(int(line))
    return found
