"""Sizes of files and functions; what is allowed to be larger stands in CONTRIBUTING.md with its reason."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from house import EVERYWHERE, ROOT, files, name, table

FILE_LINES = 300
FUNCTION_LINES = 60
KERNEL_LINES = 150
"""of a Triton kernel, whose arguments alone take a line each"""
NATIVE_LINES = 600


def _exceptions() -> dict[str, int]:
    return {what: int(limit) for what, limit, _ in table("CONTRIBUTING.md", "allowed to be larger")}


def _functions(path: Path) -> list[tuple[str, tuple[int, int]]]:
    return [
        (f"{name(path)}:{node.name}", ((node.end_lineno or 0) - node.lineno + 1, _limit(node)))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _limit(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
    kernel = any(decorator.startswith("triton.jit") for decorator in decorators)
    return KERNEL_LINES if kernel else FUNCTION_LINES


@cache
def _sizes() -> dict[str, tuple[int, int]]:
    """Of each file and function, its lines and its limit."""
    sizes: dict[str, tuple[int, int]] = {}
    for path in files(*EVERYWHERE):
        lines = path.read_text(encoding="utf-8").count("\n")
        sizes[name(path)] = (lines, FILE_LINES)
        sizes |= dict(_functions(path))
    for path in files(*EVERYWHERE, suffixes=(".cpp", ".h")):
        sizes[name(path)] = (path.read_text(encoding="utf-8").count("\n"), NATIVE_LINES)
    return sizes


def test_nothing_is_larger_than_its_budget() -> None:
    allowed = _exceptions()
    larger = {
        what: lines for what, (lines, limit) in _sizes().items() if lines > allowed.get(what, limit)
    }
    assert larger == {}


def test_every_exception_is_needed_and_has_a_reason() -> None:
    sizes = _sizes()
    for what, _, reason in table("CONTRIBUTING.md", "allowed to be larger"):
        lines, limit = sizes[what]
        assert lines > limit, f"{what} no longer needs its exception"
        assert len(reason) > 10


def test_the_readme_reaches_the_first_token_within_thirty_lines() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:30]
    assert any(line.startswith("./run generate") for line in lines)
