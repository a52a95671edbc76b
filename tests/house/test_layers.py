"""The import table in docs/architecture.md holds, for imports inside functions too."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from house import CODE, EVERYWHERE, ROOMS, ROOT, files, name, table


class Row(NamedTuple):
    path: str
    ours: tuple[str, ...]
    others: tuple[str, ...]


def _rows() -> list[Row]:
    return [
        Row(path, _split(ours), _split(others))
        for path, ours, others in table("docs/architecture.md", "path")
    ]


def _split(cell: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in cell.split(",") if part.strip())


def imported(source: str) -> Iterator[str]:
    """Every absolute module that a source names in an import statement, however deep."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            deeper = node.module == "optimist"
            yield from (f"optimist.{a.name}" for a in node.names) if deeper else (node.module,)


def _row(path: str, rows: list[Row]) -> Row:
    fitting = [row for row in rows if path.startswith(f"{row.path}/")]
    return max(fitting, key=lambda row: len(row.path))


def faults(path: str, source: str, rows: list[Row]) -> list[str]:
    """What a file imports beyond its row."""
    row = _row(path, rows)
    found = []
    for module in imported(source):
        top, *rest = module.split(".")
        if top == "optimist":
            inside = ".".join(rest)
            room = rest[0] if rest and rest[0] in ROOMS else "src/optimist"
            allowed = room == row.path.split("/")[0] or (room == row.path)
            allowed = allowed or any(f"{inside}.".startswith(f"{one}.") for one in row.ours)
        else:
            allowed = top in sys.stdlib_module_names or top in row.others
        if not allowed:
            found.append(f"{path} imports {module}")
    return found


def test_nobody_imports_more_than_the_table_allows() -> None:
    rows = _rows()
    assert {row.path for row in rows} >= set(CODE)
    found = [
        fault
        for path in files(*CODE)
        for fault in faults(name(path), path.read_text(encoding="utf-8"), rows)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("messages/x.py", "import zmq"),
        ("messages/x.py", "def f():\n    from optimist.transport import base"),
        ("kernels/x.py", "from optimist.messages.plans import Plan"),
        ("models/x.py", "import optimist.actors.base"),
        ("actors/gateway/x.py", "def f():\n    import torch"),
        ("actors/gateway/x.py", "from optimist import models"),
        ("transport/x.py", "from optimist.engine import Engine"),
    ],
)
def test_the_walk_sees_a_planted_import(path: str, source: str) -> None:
    assert len(faults(path, source, _rows())) == 1


def test_rooms_are_never_imported_by_their_bare_names() -> None:
    bare = [
        f"{name(path)} imports {module}"
        for path in files(*EVERYWHERE)
        for module in imported(path.read_text(encoding="utf-8"))
        if module.split(".")[0] in ROOMS
    ]
    assert bare == []


def test_no_relative_imports() -> None:
    found = [
        name(path)
        for path in files(*EVERYWHERE)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert found == []


def test_the_face_links_to_the_rooms() -> None:
    for room in ROOMS:
        link = ROOT / "src/optimist" / room
        assert link.is_symlink()
        assert link.readlink() == Path("../..") / room
