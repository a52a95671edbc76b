"""The project's own files, for tests about the project itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("messages", "transport", "kernels", "models", "actors")
CODE = (*ROOMS, "src/optimist")
EVERYWHERE = (*CODE, "tests", "examples", "docs", "benchmarks")
LINKS = {ROOT / "src/optimist" / room for room in ROOMS}


def files(*folders: str, suffixes: tuple[str, ...] = (".py",)) -> Iterator[Path]:
    """Files of these kinds, once each: the links in the face are not followed."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file() and not LINKS & set(path.parents):
                yield path


def name(path: Path) -> str:
    """A path as the project's pages write it."""
    return path.relative_to(ROOT).as_posix()


def table(page: str, first: str) -> list[tuple[str, ...]]:
    """The rows of the table in a page whose first heading is `first`, without backticks."""
    lines = iter((ROOT / page).read_text(encoding="utf-8").splitlines())
    for line in lines:
        if re.match(rf"\| *{re.escape(first)} *\|", line):
            next(lines)
            break
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells = re.split(r"(?<!\\)\|", line.strip("|"))
        rows.append(tuple(cell.strip().replace("`", "").replace("\\|", "|") for cell in cells))
    return rows
