"""Options of proposers as they are written on a command line."""

from __future__ import annotations

from typing import Any

import pytest

from optimist.actors.proposer.options import written_options
from optimist.messages.errors import ConfigError


@pytest.mark.parametrize(
    ("proposer", "pairs", "fields"),
    [
        ("ngram", [], {}),
        ("none", [], {}),
        ("m:C", [], {}),
        ("ngram", ["ngram_min=1", "ngram_max=4"], {"ngram_min": 1, "ngram_max": 4}),
        ("ngram-device", ["ngram_max=9"], {"ngram_max": 9}),
        ("suffix", ["suffix_probability=0.5"], {"suffix_probability": 0.5}),
        ("suffix", ["suffix_probability=1"], {"suffix_probability": 1}),
        (
            "m:C",
            ["path=/a=b", "many=3", "share=0.5", "loud=true", 'word="7"', "list=[1]", "nothing="],
            {
                "proposer_options": {
                    "path": "/a=b",
                    "many": 3,
                    "share": 0.5,
                    "loud": True,
                    "word": "7",
                    "list": "[1]",
                    "nothing": "",
                }
            },
        ),
    ],
)
def test_pairs_become_fields(proposer: str, pairs: list[str], fields: dict[str, Any]) -> None:
    assert written_options(proposer, pairs) == fields


@pytest.mark.parametrize(
    ("proposer", "pairs", "said"),
    [
        ("ngram", ["ngram_mix=1"], "ngram has no 'ngram_mix'; the nearest is ngram_min"),
        ("suffix", ["ngram_min=1"], "suffix has no 'ngram_min'; the nearest is suffix_"),
        ("none", ["ngram_min=1"], "'ngram_min' and proposer 'none' contradict each other"),
        ("self-draft", ["layers=1"], "'layers' and proposer 'self-draft' contradict each other"),
        ("ngram", ["ngram_min"], "expected key=value, got 'ngram_min'"),
        ("m:C", ["=3"], "expected key=value, got '=3'"),
        ("ngram", ["ngram_min=1", "ngram_min=2"], "expected ngram_min once, got it twice"),
        ("ngram", ["ngram_min=two"], "ngram_min: expected a whole number, got 'two'"),
        ("ngram", ["ngram_min=2.5"], r"ngram_min: expected a whole number, got 2\.5"),
        (
            "suffix",
            ["suffix_probability=high"],
            "suffix_probability: expected a number, got 'high'",
        ),
    ],
)
def test_what_is_no_option_of_the_proposer_is_refused(
    proposer: str, pairs: list[str], said: str
) -> None:
    with pytest.raises(ConfigError, match=f"^proposer_option: {said}"):
        written_options(proposer, pairs)
