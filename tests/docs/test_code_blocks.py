"""Every Python block of every page runs, and what the README promises comes true on the real model."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from house import ROOT, name

import optimist
from optimist.cli.main import main
from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS, ByteTokenizer
from optimist.testing.scripted_engine import ScriptedEngine

BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def _blocks(*pages: Path) -> Iterator[tuple[str, str]]:
    for page in pages:
        for number, source in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), 1):
            yield f"{name(page)}:{number}", source


PAGES = dict(_blocks(*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md"))


class Toy(ScriptedEngine):
    """Stands in for an engine with a model."""

    def __init__(self) -> None:
        super().__init__(_story, tokenizer=ByteTokenizer(49152))


def _story(_: Admit) -> list[int]:
    return [*b" a story.", EOS]


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str], object]:
    """Runs a block as a program."""

    def program(source: str) -> object:
        path = tmp_path / "block.py"
        path.write_text(source, encoding="utf-8")
        return runpy.run_path(str(path), run_name="__main__")

    return program


@pytest.mark.parametrize("block", PAGES)
def test_a_block_of_a_page_runs(
    block: str, run: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimist, "Engine", Toy, raising=False)
    run(PAGES[block])


def test_the_blocks_of_the_readme_run_on_the_real_model(
    run: Callable[[str], object], capsys: pytest.CaptureFixture[str]
) -> None:
    ((_, source),) = _blocks(ROOT / "README.md")
    run(source)
    assert capsys.readouterr().out.startswith(" Paris")


def test_the_first_command_of_the_readme_says_paris(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    command = re.search(r'^\./run (generate) "(.*)" (.*)$', text, re.MULTILINE)
    assert command is not None
    assert main([command[1], command[2], *command[3].split()]) == 0
    assert capsys.readouterr().out.startswith(" Paris")


def test_the_readme_and_run_name_the_same_verbs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    verbs = set(re.findall(r"\./run (\w+)", text))
    script = (ROOT / "run").read_text(encoding="utf-8")
    assert re.search(r"^ *test\)", script, re.MULTILINE)
    for verb in verbs - {"test"}:
        with pytest.raises(SystemExit) as end:
            main([verb, "--help"])
        assert end.value.code == 0
