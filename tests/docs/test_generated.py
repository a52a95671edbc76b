"""The generated parts of the pages are what the code says today."""

from __future__ import annotations

import generate
import pytest
from house import ROOT


@pytest.mark.parametrize("page", sorted(path.name for path in (ROOT / "docs").glob("*.md")))
def test_the_page_is_up_to_date(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert text == generate.generated(text), "run: python docs/generate.py"


def test_every_part_stands_on_a_page() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    for name in generate.PARTS:
        assert f"<!-- generated: {name} -->" in pages


def test_a_part_that_was_edited_is_seen() -> None:
    text = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    assert generate.generated(text.replace("`--depth 1", "`--depths 1", 1)) == text
