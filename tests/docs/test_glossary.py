"""docs/glossary.md against the code."""

from __future__ import annotations

import ast
from importlib import import_module

from house import ROOT, files, table

from optimist.messages.base import Message

BASES = {"Message", "ActorMessage", "Part"}


def _message_classes() -> dict[str, str]:
    """Of each public message class, the file that has it."""
    known: set[type] = {Message}
    found: set[type] = set()
    while known:
        kind = known.pop()
        found.add(kind)
        below: list[type] = kind.__subclasses__()
        known |= {sub for sub in below if sub.__module__.startswith("optimist.")}
    return {
        kind.__name__: kind.__module__.removeprefix("optimist.").replace(".", "/") + ".py"
        for kind in found
        if not kind.__name__.startswith("_") and kind.__name__ not in BASES
        if kind.__module__.startswith("optimist.messages")
    }


def test_every_message_has_an_entry_and_every_entry_is_a_message() -> None:
    for path in files("messages"):
        if not path.stem.startswith("__"):
            import_module("optimist." + ".".join(path.relative_to(ROOT).with_suffix("").parts))
    entries = {message: home for message, _, home in table("docs/glossary.md", "message")}
    assert entries == _message_classes()


def test_every_home_is_there_and_defines_something() -> None:
    for word, meaning, _, home in table("docs/glossary.md", "word"):
        path = ROOT / home
        assert path.is_file(), f"{word}: {home} is gone"
        assert ast.parse(path.read_text(encoding="utf-8")).body
        assert len(meaning) > 10


def test_words_are_in_order() -> None:
    words = [row[0] for row in table("docs/glossary.md", "word")]
    assert words == sorted(words, key=str.lower)
