"""The project speaks of itself alone, says each thing with one word, and leaves nothing for later."""

from __future__ import annotations

import ast
import re

import pytest
from house import CODE, EVERYWHERE, ROOT, files, name, table

TEXTS = (".py", ".md", ".toml", ".cpp", ".h", ".mjs", ".js", ".json", ".txt")
TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", "run", ".ci/run")
FOREIGN = re.compile(r"(?<![\w.~])/(?:work|farm|home|root|Users)/\w")
"""a path on somebody's machine"""
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X]|HAC[K])\b")
"""what was left for later; written so that it does not find itself"""
BANNER = re.compile(r"^\s*(?:#|//)\s*[-=*#]{4,}")


def _texts() -> dict[str, str]:
    paths = [*files(*EVERYWHERE, suffixes=TEXTS), *(ROOT / top for top in TOP)]
    return {name(p): p.read_text(encoding="utf-8") for p in paths}


@pytest.mark.parametrize(
    "pattern", [FOREIGN, UNFINISHED, BANNER], ids=["foreign", "later", "banner"]
)
def test_no_such_words(pattern: re.Pattern[str]) -> None:
    found = [
        f"{path}:{at}: {line.strip()}"
        for path, text in _texts().items()
        for at, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_one_word_for_each_thing() -> None:
    instead = {word: use for word, use in table("docs/glossary.md", "not")}
    assert len(instead) >= 5
    found = []
    for path in files(*CODE):
        for identifier in _defined(path.read_text(encoding="utf-8")):
            parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", identifier).lower().split("_")
            found += [
                f"{name(path)}: {identifier}: say {instead[part]}"
                for part in parts
                if part in instead
            ]
    assert found == []


def _defined(source: str) -> set[str]:
    """The names that a source gives to things."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
    return names


def test_no_code_in_comments() -> None:
    code = re.compile(
        r"^\s*#\s*(?:import \w|from \w+ import|def \w+\(|return\b.*[()=]|\w+ = \w+\()"
    )
    found = [
        f"{path}:{at}: {line.strip()}"
        for path, text in _texts().items()
        if path.endswith(".py")
        for at, line in enumerate(text.splitlines(), 1)
        if code.search(line)
    ]
    assert found == []
