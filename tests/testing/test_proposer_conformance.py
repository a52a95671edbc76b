"""The kit for authors of proposers passes ours and names what is wrong with others."""

from __future__ import annotations

import random

import numpy as np
import pytest
from proposer_scene import Recorder

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.base import Ids, Proposer, StepRows
from optimist.actors.proposer.native import NativeNgram, NativeSuffix
from optimist.actors.proposer.ngram import NgramProposer
from optimist.actors.proposer.suffix import SuffixProposer
from optimist.testing.proposer_conformance import (
    ProposerFailed,
    check_alone,
    check_drafting,
    check_proposer,
    main,
)

CONFIG = ProposerConfig()
LOOSE = ProposerConfig(ngram_min=1, suffix_probability=0.01)


@pytest.mark.parametrize(
    "kind", [NgramProposer, SuffixProposer, NativeNgram, NativeSuffix, Recorder]
)
@pytest.mark.parametrize("config", [CONFIG, LOOSE], ids=["default", "loose"])
def test_ours_keep_their_promises_alone(kind: type[Proposer], config: ProposerConfig) -> None:
    for seed in range(12):
        check_alone(kind, config, seed)


@pytest.mark.parametrize("kind", [NgramProposer, SuffixProposer, NativeNgram, NativeSuffix])
def test_ours_keep_their_promises_in_an_engine(kind: type[Proposer]) -> None:
    check_drafting(kind, LOOSE, simulations=12)


class Keeps(Recorder):
    """Keeps the array that it is shown instead of a copy."""

    def open(self, slot: int, generation: int, token_ids: Ids) -> None:
        super().open(slot, generation, token_ids)
        self.kept = token_ids

    def propose(self, slot: int, generation: int, max_drafts: int) -> Ids:
        return self.kept[:max_drafts]


class Draws(Recorder):
    """Draws without a seed."""

    def propose(self, slot: int, generation: int, max_drafts: int) -> Ids:
        return np.array([random.SystemRandom().randrange(50)], np.int32)


class Crashes(Recorder):
    """Fails on an empty history."""

    def open(self, slot: int, generation: int, token_ids: Ids) -> None:
        super().open(slot, generation, token_ids)
        self.last = token_ids[-1]


class Babbles(Recorder):
    """Always has one more to say."""

    def propose(self, slot: int, generation: int, max_drafts: int) -> Ids:
        return np.zeros(max_drafts + 1, np.int32)


class Writes(Recorder):
    """Writes into what it is shown."""

    def accepted(self, slot: int, generation: int, token_ids: Ids) -> None:
        token_ids.flags.writeable = True
        token_ids[0] = 9


class Hurries(NativeNgram):
    """Takes a step for less than its rows."""

    def step(self, rows: StepRows) -> tuple[Ids, Ids]:
        counts, _ = super().step(rows)
        return np.zeros_like(counts), np.zeros(0, np.int32)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Keeps, "to the same afternoon"),
        (Draws, "does it draw without a seed"),
        (Crashes, "raised 1 times"),
        (Babbles, "too_many 1 times"),
        (Hurries, "take steps unlike slots"),
        (Writes, "raised 1 times|changed an array"),
    ],
)
def test_one_that_does_not_is_told_what(kind: type[Proposer], problem: str) -> None:
    with pytest.raises(ProposerFailed, match=problem):
        check_proposer(kind, seeds=12, every=(), simulations=0)


def test_what_goes_wrong_in_an_engine_alone_is_found_there() -> None:
    with pytest.raises(ProposerFailed, match="in an engine: too_many"):
        check_drafting(Babbles, CONFIG, every=None, simulations=0)


def test_the_command_says_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ngram", "--seeds", "2"]) == 0
    assert "ngram conforms: 2 afternoons" in capsys.readouterr().out
    assert main(["n-gram"]) == 1
    assert "the nearest is ngram" in capsys.readouterr().err
