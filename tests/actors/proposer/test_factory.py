"""From a name to a proposer, and what is said about a wrong name."""

from __future__ import annotations

import pytest

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer import factory
from optimist.actors.proposer.factory import make_proposer, proposer_class
from optimist.actors.proposer.kinds import kind_of
from optimist.actors.proposer.native import NativeNgram, NativeSuffix
from optimist.actors.proposer.ngram import NgramProposer
from optimist.actors.proposer.suffix import SuffixProposer
from optimist.messages.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("none", "none"),
        ("ngram", "host"),
        ("suffix", "host"),
        ("self-draft", "device"),
        ("draft-model", "device"),
        ("mine.drafts:Mine", "host"),
    ],
)
def test_a_name_says_where_it_drafts(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("n-gram", "ngram"), ("sufix", "suffix"), ("selfdraft", "self-draft")],
)
def test_an_unknown_name_is_refused_with_the_nearest_known(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"proposer: .*nearest is {nearest}"):
        kind_of(name)


@pytest.mark.parametrize("name", [":Mine", "mine:"])
def test_a_path_needs_both_its_parts(name: str) -> None:
    with pytest.raises(ConfigError, match="module:Class"):
        kind_of(name)


def test_ours_are_made_by_name_and_are_native_where_the_library_is_there() -> None:
    assert isinstance(make_proposer(ProposerConfig(proposer="ngram")), NativeNgram)
    assert isinstance(make_proposer(ProposerConfig(proposer="suffix")), NativeSuffix)


def test_without_the_library_ours_are_made_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factory, "missing", lambda: "it was not built")
    assert isinstance(make_proposer(ProposerConfig(proposer="ngram")), NgramProposer)
    assert isinstance(make_proposer(ProposerConfig(proposer="suffix")), SuffixProposer)


def test_a_class_of_somebody_else_is_made_by_its_path() -> None:
    path = f"{NgramProposer.__module__}:{NgramProposer.__qualname__}"
    assert proposer_class(path) is NgramProposer


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no.such.module:X", "cannot import"),
        ("optimist.actors.proposer.ngram:Nothing", "cannot import"),
        ("optimist.actors.proposer.ngram:match", "expected a class"),
        ("optimist.actors.config:ProposerConfig", "expected a subclass of Proposer"),
        ("self-draft", "has an actor"),
    ],
)
def test_what_is_no_proposer_is_refused(name: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        proposer_class(name)


class Leaves(NgramProposer):
    """Ends the program where it is made."""

    def __init__(self, config: ProposerConfig) -> None:
        raise SystemExit(3)


def test_a_class_that_leaves_the_program_where_it_is_made_is_refused() -> None:
    with pytest.raises(ConfigError, match="Leaves' cannot be made: SystemExit: 3"):
        make_proposer(ProposerConfig(proposer=f"{__name__}:Leaves"))
