"""What the pages put in backticks exists: paths, options, variables, commands and names."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from house import CODE, ROOT, files, name

from optimist.cli.options import OPTIONS, SUCCESSORS
from optimist.cli.parser import COMMANDS
from optimist.environment import VARIABLES

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
TICKED = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
OUTSIDE = {"asyncio.run", "TMPDIR", "XDG_RUNTIME_DIR", "PYTHON", "VENV", "pip", "torch"}
OUTSIDE |= {
    "gpu",
    "disconnected",
    "include",
    "tcp",
    "true",
    "false",
    "null",
    "PIP_FIND_LINKS",
    "PIP_EXTRA_INDEX_URL",
    "Retry-After",
    "application/json",
}


@cache
def _known() -> frozenset[str]:
    """Every name that our code gives to something, and every string in it."""
    names: set[str] = {*dir(builtins), *keyword.kwlist}
    for path in files(*CODE):
        names |= {path.stem, *path.parent.relative_to(ROOT).parts}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found):
                    names.add(found)
                case ast.ClassDef(name=found):
                    names |= {found, re.sub(r"(?<!^)(?=[A-Z])", "_", found).lower()}
                case ast.arg(arg=found) | ast.Name(id=found):
                    names.add(found)
                case ast.Attribute(attr=found) | ast.keyword(arg=str(found)):
                    names.add(found)
                case ast.Constant(value=str(found)):
                    names.add(found)
    return frozenset(names)


VARIABLE = r"OPTIMIST_[A-Z_]*[A-Z]|(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES"


def _is_there(text: str) -> bool:
    """Whether what stands in backticks can be found."""
    word = text.split()[0]
    if text in OUTSIDE or word in OUTSIDE:
        return True
    if word.startswith("--"):
        flags = {option.flag for option in OPTIONS} | set(SUCCESSORS)
        return re.split(r"[ =]", word)[0] in flags
    if word.startswith("OPTIMIST_") and word != "OPTIMIST_":
        return word in {variable.name for variable in VARIABLES}
    if word in ("optimist", "./run") and len(text.split()) > 1:
        return text.split()[1] in {*COMMANDS, "test"} or text.split()[1].startswith("-")
    if re.fullmatch(r"[\w.-]+(/[\w.*-]+)+/?", word):
        return any(ROOT.glob(word.rstrip("/"))) or any((ROOT / "docs").glob(word.rstrip("/")))
    if re.fullmatch(r"[A-Za-z_][\w.]*(\(\))?", text):
        return text.removesuffix("()").split(".")[-1] in _known() or (ROOT / text).exists()
    return True


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_everything_in_backticks_is_there(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    assert [ticked for ticked in TICKED.findall(text) if not _is_there(ticked)] == []


@pytest.mark.parametrize(
    "gone",
    [
        "--gone",
        "OPTIMIST_GONE",
        "optimist vanish",
        "docs/gone.md",
        "actors/gone.py",
        "Engine.gonne",
    ],
)
def test_what_is_gone_is_seen(gone: str) -> None:
    assert not _is_there(gone)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_environment_table_names_every_variable_that_the_code_reads() -> None:
    read = {
        found
        for path in [*files(*CODE), ROOT / "run"]
        for found in re.findall(VARIABLE, path.read_text(encoding="utf-8"))
    }
    assert read == {variable.name for variable in VARIABLES}


def test_the_changelog_knows_the_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {project['version']}" in changelog
